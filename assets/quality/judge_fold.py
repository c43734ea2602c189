"""Judging a fold: the folded table, by what the epochs since the last fold touch.

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
from dataclasses import dataclass, replace

from rivermeet.assets.quality.judge import judged_at
from rivermeet.assets.quality.judges import evaluate
from rivermeet.assets.quality.quality_table import States
from rivermeet.assets.quality.record_verdicts import record_verdicts
from rivermeet.assets.quality.relations.folded import Folded, folded, judged, rows_of_table
from rivermeet.assets.quality.relations.inputs import InputRelations, effective
from rivermeet.expectations.results import InvariantResult
from rivermeet.expectations.verdict import Verdict
from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.stages.fold import Fold
from rivermeet.pipelines import Node


@dataclass(frozen=True)
class FoldOutcome:
    """What a fold did: the epoch that the table is at, its verdicts, its rows, and seconds of folding and judging."""

    epoch: int
    verdicts: Sequence[Verdict]
    table_rows: int | None
    seconds: float
    seconds_checks: float


def fold_node(context: EpochContext, node: Node, run: str) -> FoldOutcome | None:
    """Fold a node's table if that is due, and judge it; None where it was folded and judged already.

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
        folding = time.monotonic() - start
        crash.reached("folded", node.name)
        if context.quality is None or (not done and is_judged(context, node)):
            return FoldOutcome(committed[1].epoch, (), None, folding, 0.0) if done else None
        outcome = judge_fold(context, node, run, folding)
        return None if outcome is None else FoldOutcome(*outcome, folding, time.monotonic() - start - folding)


def is_judged(context: EpochContext, node: Node) -> bool:
    """Whether the table's last fold has its verdicts, or there is none."""
    found = last_note(context.paths(node).table)
    return found is None or bool(_lines(context, node, found[1]))


def judge_fold(
    context: EpochContext, node: Node, run: str, seconds: float
) -> tuple[int, Sequence[Verdict], int | None] | None:
    """Judge the newest fold, which took ``seconds``, and record that: its epoch, verdicts, and rows of the table."""
    of = folded(node, context.paths(node), context.log)
    if of is None:
        return None
    start = time.monotonic()
    verdicts = _recorded(context, of, run)
    took = {"fold": round(seconds, 3), "checks": round(time.monotonic() - start, 3)}
    line = json.dumps({"run": run, **took, "scope": of.scope})
    context.log.write(node.name, of.note.incarnation, of.note.epoch, "folded", line)
    return of.note.epoch, verdicts, rows_of_table(of)


def judge_fold_of_another_home(context: EpochContext, node: Node, known: States, run: str) -> bool:
    """Judge the newest fold if this home keeps no verdicts of it, as where another one folded; whether it did.

    Parameters
    ----------
    known
        What this home knows of the node.
    """
    found, rules = last_note(context.paths(node).table) if node.is_table else None, judged_at(node, "fold")
    if found is None or not rules or any(r.id in known and known[r.id].epoch == found[1].epoch for r in rules):
        return False
    of = folded(node, context.paths(node), context.log)
    if of is not None:
        _recorded(context, of, run)
    return of is not None


def _recorded(context: EpochContext, of: Folded, run: str) -> Sequence[Verdict]:
    epoch = of.note.epoch
    return record_verdicts(context, of.node, epoch, judged_fold(context, of), run, f"fold-{epoch:06d}")


def judged_fold(context: EpochContext, of: Folded) -> list[InvariantResult]:
    """What a folded table's invariants find."""
    node = effective(of.node, of.span)
    inputs = InputRelations(node, of.span, context.tables, everything=of.scope == "whole")
    return evaluate(context, node, judged_at(node, "fold"), judged(replace(of, node=node), inputs))


def _lines(context: EpochContext, node: Node, note: CommitNote) -> str | None:
    return context.log.lines(node.name, "folded", note.epoch - 1).get(note.epoch)
