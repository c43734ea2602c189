"""Judging what is committed: the folded table, the changelog, and what the audit before the commit left.

| called | judges |
|---|---|
| after an epoch's fold | what the epoch touches |
| by a run that finds an epoch of a killed run without verdicts | the same, late |
| for checks that are run alone | the tables as a whole |
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assets.quality.judge import input_relations, of_stage, relation_frames
from assets.quality.quality_table import States, last_states, remember
from assets.quality.relations.affected import Affected, AuditCache
from assets.quality.relations.committed import changelog, committed, judged, rows_of_table, stored
from assets.quality.relations.epoch import epoch_relations
from assets.quality.relations.inputs import effective
from assets.refused.held_verdicts import as_held
from assets.refused.states import AuditRefusedError
from expectations.evaluate import InvariantResult, Judged, evaluate_parts
from expectations.invariants import invariants_of
from expectations.rules.touched import early
from expectations.verdict import Verdict
from infra.delta.changelog_files import epoch_rows
from infra.delta.io import last_note
from infra.epochs.context import EpochContext, Quality
from infra.epochs.plan import EpochPlan
from pipelines import Node


@dataclass(frozen=True)
class Judgement:
    """What was judged of a node's epoch; seconds of all of it, and how many rows its folded table has."""

    epoch: int
    results: Sequence[InvariantResult]
    verdicts: Sequence[Verdict]
    seconds: float
    table_rows: int | None = None


def judge_epoch(
    context: EpochContext,
    node: Node,
    plan: EpochPlan,
    run: str,
    audit: Sequence[InvariantResult] = (),
    cache: AuditCache | None = None,
) -> Judgement:
    """Judge what a committed epoch touches in its tables, and record that with what its audit found.

    Parameters
    ----------
    audit
        What was found before the commit; these invariants are not judged again.
    cache
        What was read then.
    """
    return _judged(context, node, plan, list(audit), run, alone=False, cache=cache)


def judge_again(context: EpochContext, node: Node, run: str) -> Judgement | None:
    """Judge the last committed epoch once more, and all of the tables; None where there is none yet.

    What the audit found of an epoch that is held stands.
    """
    found = last_note(context.paths(node).changelog)
    if found is None:
        return None
    judgement = _later(context, node, found[1].epoch, run, alone=True)
    return replace(judgement, verdicts=as_held(context, node, judgement.verdicts))


def judge_missed(context: EpochContext, node: Node, epoch: int, run: str) -> Judgement | None:
    """Judge a committed epoch whose run was killed before its checks; None where it was judged, or is none."""
    if context.quality is None or not epoch or context.log.lines(node.name, "judged", epoch - 1):
        return None
    return _later(context, node, epoch, run, alone=False)


def judge_refused(context: EpochContext, node: Node, refusal: AuditRefusedError, run: str) -> Judgement:
    """Keep what the audit found of an epoch that it refused."""
    return _kept(context, node, refusal.epoch, list(refusal.results), run, time.monotonic())


def states_of(context: EpochContext, node: Node, epoch: int, run: str) -> States:
    """What was found of a committed epoch; judged now if this home never has, as where another one made it."""
    quality = _quality(context)
    known = last_states(quality, node, epoch)
    if not known:
        _later(context, node, epoch, run, alone=False)
        known = last_states(quality, node, epoch)
    return known


def _later(context: EpochContext, node: Node, epoch: int, run: str, alone: bool) -> Judgement:
    plan = EpochPlan.model_validate_json(context.log.lines(node.name, "plan", epoch - 1)[epoch])
    return _judged(context, node, plan, [], run, alone)


def _judged(
    context: EpochContext,
    node: Node,
    plan: EpochPlan,
    audit: list[InvariantResult],
    run: str,
    alone: bool,
    cache: AuditCache | None = None,
) -> Judgement:
    """Judge what is committed: the epoch's rows by what their audit has not judged, and the tables."""
    start, spark = time.monotonic(), context.session()
    there = committed(effective(node, plan), context.paths(node), plan, alone)
    known = {result.invariant.id for result in audit}
    rules = [rule for rule in of_stage(there.node, "epoch") if rule.id not in known]
    whole, affected = there.scope == "whole", cache.of(plan, spark) if cache is not None else None
    with relation_frames(node, plan, "checks", whole) as shared:
        rows = shared.keep(epoch_rows(spark, there.paths.changelog, plan.epoch, there.version))
        inputs = affected.inputs if affected else input_relations(context, there.node, spark, plan, shared)
        of_epoch = epoch_relations(spark, there.paths, plan, rows, there.rows, inputs)
        if whole:
            inputs = input_relations(context, there.node, spark, plan, shared, whole=True)
        judged_rows, most = changelog(spark, there, rows), max(there.rows, plan.records)
        if affected is None or whole or not early(there.node):
            affected = Affected(spark, there.node, inputs, shared, judged_rows, most, lambda: stored(spark, there))
        if not whole and early(there.node):
            of_epoch |= affected.relations
        parts = [
            (rules, Judged(of_epoch, {"rows": there.rows}, keep=shared.keep)),
            (of_stage(there.node, "table"), judged(spark, there, judged_rows, affected, cache)),
        ]
        results = evaluate_parts(spark, there.node, parts)
    judgement = _kept(context, node, plan.epoch, audit + results, run, start)
    if not alone:
        context.log.write(node.name, plan.incarnation, plan.epoch, "judged", json.dumps({"run": run}))
    return replace(judgement, table_rows=rows_of_table(spark, there))


def _kept(
    context: EpochContext, node: Node, epoch: int, results: list[InvariantResult], run: str, start: float
) -> Judgement:
    from expectations.gx.suite import judge

    quality = _quality(context)
    order = {invariant.id: place for place, invariant in enumerate(invariants_of(node))}
    results.sort(key=lambda r: order[r.invariant.id])
    asset = f"{node.pipeline.name}.{node.name}"
    verdicts = judge(results, asset, f"epoch-{epoch:06d}", quality.reports / "gx")
    remember(quality, node, epoch, results, run)
    return Judgement(epoch, results, verdicts, time.monotonic() - start)


def _quality(context: EpochContext) -> Quality:
    assert context.quality is not None, "verdicts are kept somewhere"
    return context.quality
