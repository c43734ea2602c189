"""The verdicts of an epoch once it is committed: recorded, found after a killed run, or judged again.

| called | judges |
|---|---|
| after an epoch's commit | the commit; all else was judged before it |
| by a run that finds an epoch of a killed run without verdicts | the epoch's rows as committed, and the commit |
| by the run after one that could not evaluate all of them | the same, once |
| for checks that are run alone | the last epoch's rows, and all that the changelog and the table hold |

While an epoch is held, checks that are run alone keep what its audit found until someone decides about it. Judged by
what is committed, the epoch before, they would be green at a node that commits nothing any more:

    epoch 1   committed    price_not_negative holds
    epoch 2   held         price_not_negative is violated        checks alone: violated, with the rows of epoch 2

The folded table is judged as far as the epochs since the last fold touch it. A table that is behind its changelog keeps
the verdicts of its last fold, shown with the epoch that it was folded to:

    epoch 3   folded, and judged with epoch 3
    epoch 4   not due: the rows of epoch 4 are judged, and the table's checks stay as of epoch 3
    epoch 5   folded over both epochs: judged by what both touch, as of epoch 5

A fold whose run was killed before its verdicts is judged by the next run.

Held by ``tests/assets/quality/test_planted.py``, ``tests/assets/quality/test_held_verdicts.py``,
``tests/expectations/test_scopes.py`` and ``tests/infra/epochs/test_folds.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rivermeet.assets.quality.judge import evaluate, judge_commit, select_rules
from rivermeet.assets.quality.quality_table import States, last_states, lines_about, quality_lines, quality_of, record
from rivermeet.assets.quality.relations.epoch import build_epoch_relations, effective, late
from rivermeet.assets.quality.relations.folded import Folded, build_fold_relations, find_fold, rows_of_table, whole
from rivermeet.assets.quality.relations.parts import at_version, locate, node_part, sql_name
from rivermeet.assets.refused.states import AuditRefusedError, states
from rivermeet.expectations.results import FOUND, InvariantResult
from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.changelog_files import count_between, epoch_files
from rivermeet.infra.delta.io import last_note, note_upto
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.stages.fold import Fold
from rivermeet.pipelines import Node


@dataclass(frozen=True)
class Judgement:
    """What was judged of a node's epoch; of one just committed, seconds of what came after its commit."""

    epoch: int
    verdicts: Sequence[InvariantResult]
    seconds: float = 0.0


def judge_epoch(
    context: EpochContext, node: Node, plan: EpochPlan, version: int, audit: Sequence[InvariantResult], run: str
) -> Judgement:
    """Judge the commit of an epoch, at ``version`` of the changelog, and record that with what its audit found."""
    start = time.monotonic()
    # A rebuild replaces these rows: the query names the version that has them.
    paths = context.paths(node)
    rows = at_version(sql_name(paths, "changelog"), version)
    audit = [replace(result, sql=locate(result.sql, paths, rows)) for result in audit]
    results = [*audit, *judge_commit(context, effective(node, plan), plan, version)]
    verdicts = record(context, node, plan.epoch, results, run, f"epoch-{plan.epoch:06d}")
    # An executor may be lost with the rows that a check wanted: the next run has them from the commit. It tries once,
    # else a query that always fails would be tried by each run (test_what_could_not_be_evaluated_is_judged_once_more).
    if all(result.state != "not evaluated" for result in results):
        _mark_judged(context, plan, run)
    return Judgement(plan.epoch, verdicts, time.monotonic() - start)


def judge_missed(context: EpochContext, node: Node, epoch: int, run: str) -> Judgement | None:
    """Judge a committed epoch whose run was killed before its verdicts or could not evaluate them all; else None."""
    if context.quality is None or not epoch or context.log.lines(node.name, "judged", epoch - 1):
        return None
    return _late(context, node, epoch, run)


def judge_again(context: EpochContext, node: Node, run: str) -> Judgement | None:
    """Judge the last committed epoch again, and all of the tables; None if there is none yet.

    What the audit found of a held epoch stands.
    """
    found = last_note(context.paths(node).changelog)
    if found is None:
        return None
    epoch = found[1].epoch
    plan = _plan_of(context, node, epoch)
    results = [r for r in _rows_again(context, effective(node, plan), plan) if r.invariant.stage == "epoch"]
    results += judge_everything(context, node)
    verdicts = record(context, node, epoch, results, run, f"alone-{epoch:06d}")
    return Judgement(epoch, as_held(context, node, verdicts))


def judge_everything(context: EpochContext, node: Node) -> list[InvariantResult]:
    """What rules find in the node's whole changelog and table."""
    paths = context.paths(node)
    everything = whole(node, paths, context.log, None)
    mine = effective(node, everything.span)
    rules = [rule for rule in select_rules(mine, "audit") if rule.stage == "table"] + select_rules(mine, "commit")
    results = evaluate(context, mine, rules, build_fold_relations(everything, mine, context.tables))
    table, folded = open_table(paths.table), last_note(paths.table)
    # A table of an earlier incarnation is left by a killed rebuild: its inputs are gone.
    if table is not None and folded is not None and folded[1].incarnation == everything.note.incarnation:
        results += evaluate_fold(context, whole(node, paths, context.log, table.version()))
    return results


def as_held(context: EpochContext, node: Node, verdicts: Sequence[InvariantResult]) -> Sequence[InvariantResult]:
    """The verdicts of a node; of what its held epoch violates, those that its audit gave."""
    held = [state.held.epoch for state in states(context, node) if state.open]
    if not held:
        return verdicts
    lines = quality_lines(quality_of(context), lines_about(node, held[-1]), oldest=held[-1])
    newest = {line["invariant"]: line for line in sorted(lines, key=lambda line: line["judged_at"] or 0)}
    broken = {invariant: line for invariant, line in newest.items() if line["state"] != "passed"}
    return [_to_held(v, broken[v.invariant.id]) if v.passed and v.invariant.id in broken else v for v in verdicts]


def _to_held(result: InvariantResult, line: Mapping[str, Any]) -> InvariantResult:
    found = {name: line[name] for name in FOUND if name != "state"}
    note = f"That is epoch {line['epoch']}, which is held; what is committed holds."
    return replace(result, **found, sample=json.loads(line["sample"] or "[]"), note=note)


def judge_refused(context: EpochContext, node: Node, refusal: AuditRefusedError, run: str) -> Judgement:
    """Record what the audit found of an epoch that it refused."""
    epoch = refusal.epoch
    return Judgement(epoch, record(context, node, epoch, refusal.results, run, f"epoch-{epoch:06d}"))


def states_of(context: EpochContext, node: Node, epoch: int, run: str) -> States:
    """The results of a committed epoch and of the last fold; what this home has not judged yet is judged now.

    Where several homes share tables, the one that made an epoch judges it: the others have no verdicts on it.
    """
    quality = quality_of(context)
    judge_missed(context, node, epoch, run)
    known = last_states(quality, node, epoch)
    if not any(state.epoch == epoch for state in known.values()):
        _late(context, node, epoch, run)
        known = last_states(quality, node, epoch)
    if judge_fold_of_another_home(context, node, known, run):
        known = last_states(quality, node, epoch)
    return known


def _late(context: EpochContext, node: Node, epoch: int, run: str) -> Judgement:
    plan = _plan_of(context, node, epoch)
    mine, (version, _) = effective(node, plan), note_upto(context.paths(node).changelog, epoch)
    results = [*_rows_again(context, mine, plan), *judge_commit(context, mine, plan, version)]
    verdicts = record(context, node, epoch, results, run, f"epoch-{epoch:06d}")
    _mark_judged(context, plan, run)
    return Judgement(epoch, verdicts)


def _rows_again(context: EpochContext, node: Node, plan: EpochPlan) -> list[InvariantResult]:
    paths = context.paths(node)
    version, note = note_upto(paths.changelog, plan.epoch)
    rows = node_part(paths, "changelog", version, lambda files: epoch_files(files, plan.epoch))
    found = build_epoch_relations(
        context, node, plan, rows, count_between(plan.ends, note.ends), lambda: late(paths, plan)
    )
    return evaluate(context, node, select_rules(node, "audit"), found)


def _mark_judged(context: EpochContext, plan: EpochPlan, run: str) -> None:
    context.log.write(plan.node, plan.incarnation, plan.epoch, "judged", json.dumps({"run": run}))


def _plan_of(context: EpochContext, node: Node, epoch: int) -> EpochPlan:
    return EpochPlan.model_validate_json(context.log.lines(node.name, "plan", epoch - 1)[epoch])


@dataclass(frozen=True)
class FoldOutcome:
    """What a fold did: the epoch that the table is at, its verdicts, its rows, and seconds of folding and judging."""

    epoch: int
    verdicts: Sequence[InvariantResult]
    table_rows: int | None
    seconds: float
    seconds_checks: float


def awaits_fold(context: EpochContext, node: Node, upto: CommitNote) -> bool:
    """Whether the node's table is to be folded up to the commit with this note, or its last fold to be judged."""
    return Fold(node).is_due(context, upto) or (node.is_table and not is_judged(context, node))


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
