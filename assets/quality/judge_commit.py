"""Judging a commit: what its log entry names is what the epoch was to add, without hole or double.

The rows were judged before the commit, in files that no log named. This looks at the files that the log names now, for
the epoch's partitions and offsets alone.

    changelog ended at offset 9, the epoch has 3 rows      its files have offsets 10, 11, 12        passes
    a file is named twice                                  10, 10, 11, 11, 12, 12                   violated

Held by ``tests/assets/quality/test_planted.py`` and ``tests/assets/quality/test_judge_commit.py``.
"""

from __future__ import annotations

from rivermeet.assets.quality.judge import judged_at
from rivermeet.assets.quality.judges import evaluate
from rivermeet.assets.quality.relations.lines import bounds
from rivermeet.assets.quality.relations.parts import TableRows
from rivermeet.expectations.results import InvariantResult, Judged, Relation
from rivermeet.infra.delta.changelog_files import epoch_files
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.pipelines import Node


def judge_commit(context: EpochContext, node: Node, plan: EpochPlan, version: int) -> list[InvariantResult]:
    """Judge a committed epoch in the node's changelog at ``version``."""
    rows = TableRows.of(context.paths(node), "changelog", version, lambda files: epoch_files(files, plan.epoch))
    named = Relation(f"SELECT * FROM {{changelog}} WHERE epoch = {plan.epoch}", {"changelog": rows})
    starts = bounds(plan)
    judged = Judged({"changelog": lambda: named, "bounds": lambda: starts})
    return evaluate(context, node, judged_at(node, "commit"), judged)
