"""Judging a commit: what its log entry names is what the epoch was to add, without hole or double.

The rows were judged before the commit, in files that no log named. This looks at the files that the log names now, for
the epoch's partitions and offsets alone: milliseconds, and no Spark job.

    changelog ended at offset 9, the epoch has 3 rows      its files have offsets 10, 11, 12        passes
    a file is named twice                                  10, 10, 11, 11, 12, 12                   violated

Held by ``tests/assets/quality/test_planted.py`` and ``tests/assets/quality/test_judge_commit.py``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from assets.quality.judge import judged_at
from assets.quality.relations.sql import bounds, bounds_sql, version_sql
from expectations.evaluate import InvariantResult, Judged, Relation, evaluate
from infra.delta.changelog_files import PartitionOffsets, epoch_offsets, epoch_rows
from infra.epochs.context import EpochContext
from infra.epochs.plan import EpochPlan
from pipelines import Node

if TYPE_CHECKING:
    from expectations.invariant import Invariant


def judge_commit(context: EpochContext, node: Node, plan: EpochPlan, version: int) -> list[InvariantResult]:
    """Judge a committed epoch in the node's changelog at ``version``."""
    start, rules = time.monotonic(), judged_at(node, "commit")
    path = context.paths(node).changelog
    found = epoch_offsets(path, plan.epoch, version)
    if found is not None:
        return [_result(rule, node, path, plan, version, found, time.monotonic() - start) for rule in rules]
    # Its files have columns under other names, or deleted rows: Delta reads them.
    spark = context.session()
    sql = version_sql(path, version, f"epoch = {plan.epoch}")
    rows = Relation(epoch_rows(spark, path, plan.epoch, version), sql)
    judged = Judged({"changelog": lambda: rows, "bounds": lambda: bounds(spark, plan)})
    return evaluate(spark, node, rules, judged)


def _result(
    rule: Invariant,
    node: Node,
    path: str,
    plan: EpochPlan,
    version: int,
    found: Sequence[PartitionOffsets],
    seconds: float,
) -> InvariantResult:
    named = {"changelog": version_sql(path, version, f"epoch = {plan.epoch}"), "bounds": bounds_sql(plan)}
    starts = {one.partition: plan.ends.get(one.partition, -1) + 1 for one in found}
    bad = [one for one in found if not one.are_dense_from(starts[one.partition])]
    return InvariantResult(
        invariant=rule,
        checked=sum(one.records for one in found),
        violations=len(bad),
        sample=[_shown(one, starts[one.partition]) for one in bad],
        sql=rule.violations(node).format(**named),
        seconds=seconds,
    )


def _shown(found: PartitionOffsets, start: int) -> dict[str, str]:
    columns = {
        "partition": found.partition,
        "first_offset": found.first,
        "last_offset": found.last,
        "records": found.records,
        "distinct_offsets": found.distinct,
        "must_start_at": start,
    }
    return {name: str(value) for name, value in columns.items()}
