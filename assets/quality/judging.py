"""Judging epochs: before they are committed, after that, and once more; and where the verdicts go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from filelock import FileLock

from assets.quality.committed_relations import changelog, committed, judged, rows_of_table, stored
from assets.quality.reached_relations import Held, Reached
from assets.quality.relations import InputRelations, Relations, effective, epoch_relations
from assets.refused.held_verdicts import as_held
from expectations.evaluate import InvariantResult, Judged, evaluate, evaluate_parts
from expectations.invariants import Invariant, invariants_of
from expectations.rules.touched import early
from expectations.verdict import Verdict
from infra.delta.io import last_note
from infra.delta.lines import append_lines, lines_of, opened
from infra.epochs.plan import EpochPlan
from pipelines import Node

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, SparkSession

    from assets.epoch.platform import Platform
    from infra.engine.shared_frames import SharedFrames
    from infra.epochs.refusal import EpochRefusedError
    from infra.epochs.step import Audit, EpochResult

States = Mapping[str, tuple[str, int | None, int | None]]
"""Invariant to its state, rows checked and violations."""


@dataclass(frozen=True)
class Judgement:
    """What was judged of a node's epoch; seconds of all of it, and how many rows its folded table has."""

    epoch: int
    results: Sequence[InvariantResult]
    verdicts: Sequence[Verdict]
    seconds: float
    table_rows: int | None = None


def of_stage(node: Node, stage: str) -> list[Invariant]:
    """The node's invariants of one stage."""
    return [invariant for invariant in invariants_of(node) if invariant.stage == stage]


def auditor(platform: Platform, node: Node, run: str, held: Held | None = None) -> Audit:
    """The audit of a node's epochs: a blocking violation quarantines the rows and refuses the epoch.

    What does not block is judged once the epoch is committed, with the rest; of a refused one, at once.

    Parameters
    ----------
    held
        Gets what the audit reads of the inputs, for `check_epoch`; whoever made it releases it.
    """
    from assets.refused.quarantine import settle

    def audit(
        spark: SparkSession, plan: EpochPlan, rows: DataFrame, counts: Mapping[str, int]
    ) -> Sequence[InvariantResult]:
        seen = effective(node, plan)
        rules = of_stage(seen, "epoch")
        with _shared(node, plan, "audit", held=held) as shared:
            inputs = _inputs(platform, seen, spark, plan, shared)
            relations = _of_epoch(platform, seen, spark, plan, rows, counts["rows"], inputs)
            frame = relations["rows"]()
            if shared.few:
                reached = Reached(spark, seen, inputs, shared, frame, max(counts["rows"], plan.records))
                if held is not None:
                    held.hold(plan, reached, platform.runner(node.pipeline).paths(node).table)
                relations |= reached.relations if early(seen) else {}
            judged = Judged(relations, {"rows": counts["rows"]}, keep=shared.keep)
            results = evaluate(spark, seen, [rule for rule in rules if rule.blocking], judged)
            if not all(result.passed for result in results):
                results += evaluate(spark, seen, [rule for rule in rules if not rule.blocking], judged)
        return settle(platform, node, plan, frame, results, run)

    return audit


def check_epoch(platform: Platform, node: Node, result: EpochResult, run: str, held: Held | None = None) -> Judgement:
    """Judge what a committed epoch touches in its tables, and record that with what its audit found.

    Parameters
    ----------
    held
        What that audit has left.
    """
    return _recorded(platform, node, result.plan, list(result.audit), run, alone=False, held=held)


def check_again(platform: Platform, node: Node, run: str) -> Judgement | None:
    """Judge the last committed epoch once more, and all of the tables; None where there is none yet.

    What the audit found of an epoch that is held stands.
    """
    found = last_note(platform.runner(node.pipeline).paths(node).changelog)
    if found is None:
        return None
    judgement = _later(platform, node, found[1].epoch, run, alone=True)
    return replace(judgement, verdicts=as_held(platform, node, judgement.verdicts))


def check_missed(platform: Platform, node: Node, epoch: int, run: str) -> Judgement | None:
    """Judge a committed epoch whose run was killed before its checks; None where it was judged, or is none."""
    if not epoch or platform.runner(node.pipeline).log.lines(node.name, "judged", epoch - 1):
        return None
    return _later(platform, node, epoch, run, alone=False)


def _later(platform: Platform, node: Node, epoch: int, run: str, alone: bool) -> Judgement:
    log = platform.runner(node.pipeline).log
    plan = EpochPlan.model_validate_json(log.lines(node.name, "plan", epoch - 1)[epoch])
    return _recorded(platform, node, plan, [], run, alone)


def judge_refused(platform: Platform, node: Node, refusal: EpochRefusedError, run: str) -> Judgement | None:
    """Judge what the audit found of an epoch that it refused; None where no audit did."""
    if refusal.epoch is None:
        return None
    return _kept(platform, node, refusal.epoch, list(refusal.found), run, time.monotonic())


def _of_epoch(
    platform: Platform,
    node: Node,
    spark: SparkSession,
    plan: EpochPlan,
    rows: DataFrame,
    count: int,
    inputs: InputRelations | None,
) -> Relations:
    """What judges an epoch's rows by what its plan could see."""
    tables = platform.runner(node.pipeline).paths(node)
    return epoch_relations(spark, node, lambda name: getattr(tables, name), plan, rows, count, inputs)


def _recorded(
    platform: Platform,
    node: Node,
    plan: EpochPlan,
    audit: list[InvariantResult],
    run: str,
    alone: bool,
    held: Held | None = None,
) -> Judgement:
    """Judge what is committed: the epoch's rows by what their audit has not judged, and the tables."""
    from infra.delta.changelog_files import epoch_rows

    start, spark, held = time.monotonic(), platform.session(), held or Held()
    there = committed(effective(node, plan), platform.runner(node.pipeline).paths(node), plan, alone)
    told = {result.invariant.id for result in audit}
    rules = [rule for rule in of_stage(there.node, "epoch") if rule.id not in told]
    whole, found = there.scope == "whole", held.of(plan, spark)
    with _shared(node, plan, "checks", whole) as shared:
        rows = shared.keep(epoch_rows(spark, there.paths.changelog, plan.epoch, there.version))
        inputs = found.inputs if found is not None else _inputs(platform, there.node, spark, plan, shared)
        of_epoch = _of_epoch(platform, there.node, spark, plan, rows, there.rows, inputs)
        if whole:
            inputs = _inputs(platform, there.node, spark, plan, shared, whole=True)
        judged_rows, most = changelog(spark, there, rows), max(there.rows, plan.records)
        if found is None or whole or not early(there.node):
            found = Reached(spark, there.node, inputs, shared, judged_rows, most, lambda: stored(spark, there))
        if not whole and early(there.node):
            of_epoch |= found.relations
        parts = [
            (rules, Judged(of_epoch, {"rows": there.rows}, keep=shared.keep)),
            (of_stage(there.node, "table"), judged(spark, there, judged_rows, found, held)),
        ]
        results = evaluate_parts(spark, there.node, parts)
    judgement = _kept(platform, node, plan.epoch, audit + results, run, start)
    if not alone:
        log = platform.runner(node.pipeline).log
        log.write(node.name, plan.incarnation, plan.epoch, "judged", json.dumps({"run": run}))
    return replace(judgement, table_rows=rows_of_table(spark, there))


def _kept(
    platform: Platform, node: Node, epoch: int, results: list[InvariantResult], run: str, start: float
) -> Judgement:
    from expectations.gx.suite import judge

    order = {invariant.id: place for place, invariant in enumerate(invariants_of(node))}
    results.sort(key=lambda r: order[r.invariant.id])
    asset = f"{node.pipeline.name}.{node.name}"
    verdicts = judge(results, asset, f"epoch-{epoch:06d}", platform.settings.reports / "gx")
    remember(platform, node, epoch, results, run)
    return Judgement(epoch, results, verdicts, time.monotonic() - start)


def remember(platform: Platform, node: Node, epoch: int, results: Sequence[InvariantResult], run: str) -> None:
    """Append what was found to the quality table."""
    import pyarrow as pa

    from expectations.history import SCHEMA, history

    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in SCHEMA.items()])
    with FileLock(platform.settings.home / "locks" / "quality.lock"):
        app_id = f"{node.pipeline.name}.{node.name}/{run}"
        append_lines(history(node, epoch, run, results), schema, platform.quality, app_id, epoch)


def _inputs(
    platform: Platform, node: Node, spark: SparkSession, plan: EpochPlan, shared: SharedFrames, whole: bool = False
) -> InputRelations | None:
    from assets.epoch.operator_step import OperatorStep

    if node.operation is None:
        return None
    pinned = OperatorStep(node, platform.settings.tables).pinned(spark, plan)
    return InputRelations(spark, node, pinned, shared, everything=whole)


@contextmanager
def _shared(
    node: Node, plan: EpochPlan, what: str, whole: bool = False, held: Held | None = None
) -> Iterator[SharedFrames]:
    from infra.engine.shared_frames import SharedFrames

    records = None if whole else plan.records
    shared = SharedFrames(f"{node.pipeline.name}_{node.name}_{plan.epoch}_{what}_{uuid4().hex}", records)
    try:
        yield shared
    finally:
        if held is None or held.reached is None or held.reached.shared is not shared:
            shared.release()


def lines_about(node: Node, epoch: int | None = None) -> pc.Expression:
    """Which rows of the quality table are a node's; of one epoch, or of all."""
    import pyarrow.compute as pc

    here = (pc.field("pipeline") == node.pipeline.name) & (pc.field("node") == node.name)
    return here if epoch is None else here & (pc.field("epoch") == epoch)


def quality_lines(
    platform: Platform, wanted: pc.Expression, columns: list[str] | None = None, oldest: int = 0
) -> Sequence[Mapping[str, Any]]:
    """Rows of the quality table, in the columns of `expectations.history.SCHEMA`; read without Spark.

    Parameters
    ----------
    columns
        Only these.
    oldest
        Files of older epochs alone are not looked at.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from expectations.history import SCHEMA

    def not_older(files: pa.Table) -> pa.Table:
        return files.filter(pc.field("max.epoch") >= oldest) if "max.epoch" in files.column_names else files

    table = opened(platform.quality)
    if table is None:
        return ()
    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in SCHEMA.items()])
    return lines_of(table, platform.quality, schema, not_older).to_table(columns, filter=wanted).to_pylist()


def states_of(platform: Platform, node: Node, epoch: int, run: str) -> States:
    """What was found of a committed epoch; judged now if this home never has, as where another one made it."""
    known = last_states(platform, node, epoch)
    if not known:
        _later(platform, node, epoch, run, alone=False)
        known = last_states(platform, node, epoch)
    return known


def last_states(platform: Platform, node: Node, epoch: int | None = None) -> States:
    """What the node's newest judgement found, or that of one epoch; read without Spark."""
    columns = ["epoch", "invariant", "state", "checked", "violations", "judged_at"]
    about = quality_lines(platform, lines_about(node, epoch), columns, oldest=epoch or 0)
    # An epoch that was refused and then released has been judged twice.
    lines = sorted(about, key=lambda line: line["judged_at"] or 0)
    last = max((line["epoch"] for line in lines), default=0)
    return {
        line["invariant"]: (line["state"], line["checked"], line["violations"])
        for line in lines
        if line["epoch"] == last
    }
