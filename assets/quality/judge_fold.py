"""Judging a fold: the folded table, as far as the epochs since the last fold touch it.

A table that is behind its changelog keeps the verdicts of its last fold, shown with the epoch that it was folded to:

    epoch 3   folded, and judged with epoch 3
    epoch 4   not due: the rows of epoch 4 are judged, and the table's checks stay as of epoch 3
    epoch 5   folded over both epochs: judged by what both touch, as of epoch 5

A fold whose run was killed before its verdicts is judged by the next run. Held by ``tests/expectations/test_scopes.py``
and ``tests/infra/epochs/test_folds.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rivermeet.assets.quality.judge import select_rules
from rivermeet.assets.quality.judges import evaluate
from rivermeet.assets.quality.quality_table import States, record
from rivermeet.assets.quality.relations.epoch import effective
from rivermeet.assets.quality.relations.folded import Folded, build_fold_relations, find_fold, rows_of_table
from rivermeet.expectations.results import InvariantResult
from rivermeet.infra import crash
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.stages.fold import Fold
from rivermeet.pipelines import Node


@dataclass(frozen=True)
class FoldOutcome:
    """What a fold did: the epoch that the table is at, its verdicts, its rows, and seconds of folding and judging."""

    epoch: int
    verdicts: Sequence[InvariantResult]
    table_rows: int | None
    seconds: float
    seconds_checks: float


def fold_node(context: EpochContext, node: Node, run: str) -> FoldOutcome | None:
    """Fold a node's table if that is due, and judge it; None if it was already folded and judged.

    The node's lock is held: a second run of the node would plan on a table that changes.
    """
    if not node.is_table or context.folds == "never":
        return None
    with context.lock(node).hold():
        committed = last_note(context.paths(node).changelog)
        if committed is None:
            return None
        start = time.monotonic()
        done = Fold(node).run(context, committed[1])
        seconds = time.monotonic() - start
        crash.crash_at("folded", node.name)
        if context.quality is None or (not done and is_judged(context, node)):
            return FoldOutcome(committed[1].epoch, (), None, seconds, 0.0) if done else None
        return judge_fold(context, node, run, seconds)


def is_judged(context: EpochContext, node: Node) -> bool:
    """Whether the table's last fold has its verdicts, or there is none."""
    found = last_note(context.paths(node).table)
    return found is None or found[1].epoch in context.log.lines(node.name, "folded", found[1].epoch - 1)


def judge_fold(context: EpochContext, node: Node, run: str, seconds: float) -> FoldOutcome | None:
    """Judge the newest fold, which took ``seconds``, and record that; None where there is none."""
    of = find_fold(node, context.paths(node), context.log)
    if of is None:
        return None
    start = time.monotonic()
    verdicts = _judge_and_record(context, of, run)
    checks = time.monotonic() - start
    line = {"run": run, "fold": round(seconds, 3), "checks": round(checks, 3), "scope": of.scope}
    context.log.write(node.name, of.note.incarnation, of.note.epoch, "folded", json.dumps(line))
    return FoldOutcome(of.note.epoch, verdicts, rows_of_table(of, of.table), seconds, checks)


def judge_fold_of_another_home(context: EpochContext, node: Node, known: States, run: str) -> bool:
    """Judge the newest fold if this home has no verdicts on it, since another one folded; whether it did."""
    found, rules = last_note(context.paths(node).table) if node.is_table else None, select_rules(node, "fold")
    if found is None or not rules or any(r.id in known and known[r.id].epoch == found[1].epoch for r in rules):
        return False
    of = find_fold(node, context.paths(node), context.log)
    if of is not None:
        _judge_and_record(context, of, run)
    return of is not None


def _judge_and_record(context: EpochContext, of: Folded, run: str) -> Sequence[InvariantResult]:
    epoch = of.note.epoch
    return record(context, of.node, epoch, evaluate_fold(context, of), run, f"fold-{epoch:06d}")


def evaluate_fold(context: EpochContext, of: Folded) -> list[InvariantResult]:
    """What a folded table's invariants find."""
    node = effective(of.node, of.span)
    return evaluate(context, node, select_rules(node, "fold"), build_fold_relations(of, node, context.tables))
