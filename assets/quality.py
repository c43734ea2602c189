"""Judging epochs: before they are committed, after that, and once more; and where the verdicts go."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from filelock import FileLock

from assets.committed_relations import committed, judged, rows_of_table
from assets.relations import InputRelations, effective, epoch_relations
from expectations.evaluate import InvariantResult, Judged, Relation, evaluate
from expectations.invariants import Invariant, invariants_of
from expectations.verdict import Verdict
from infra.delta_io import last_note
from infra.delta_lines import append_lines, lines_of, opened
from infra.plan import EpochPlan
from pipelines import Node

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, SparkSession

    from assets.platform import Platform
    from infra.refusal import EpochRefusedError
    from infra.shared_frames import SharedFrames
    from infra.step import Audit, EpochResult


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


def auditor(platform: Platform, node: Node, run: str) -> Audit:
    """The audit of a node's epochs: a blocking violation quarantines the rows and refuses the epoch."""
    from assets.quarantine import settle
    from infra.refusal import EpochRefusedError

    def audit(
        spark: SparkSession, plan: EpochPlan, rows: DataFrame, counts: Mapping[str, int]
    ) -> Sequence[InvariantResult]:
        results, judged_rows = _judged_rows(platform, node, spark, plan, rows, counts["rows"])
        broken = [r for r in results if r.invariant.blocking and not r.passed]
        try:
            settle(platform, node, plan, judged_rows, broken, run)
        except EpochRefusedError as refusal:
            refusal.epoch, refusal.found = plan.epoch, results
            raise
        return results

    return audit


def check_epoch(platform: Platform, node: Node, result: EpochResult, run: str) -> Judgement:
    """Judge what a committed epoch touches in its tables, and record that with what its audit found."""
    return _recorded(platform, node, result.plan, list(result.audit), run, alone=False)


def check_again(platform: Platform, node: Node, run: str) -> Judgement | None:
    """Judge the last committed epoch once more, and all of the tables; None where there is none yet."""
    from infra.changelog_files import epoch_rows
    from infra.shared_frames import anew

    runner, spark = platform.runner(node.pipeline), platform.session()
    paths = runner.paths(node)
    found = last_note(paths.changelog)
    if found is None:
        return None
    version, note = found
    body = runner.log.lines(node.name, "plan", note.epoch - 1)[note.epoch]
    plan = EpochPlan.model_validate_json(body)
    rows = anew(epoch_rows(spark, paths.changelog, note.epoch, version))
    results, _ = _judged_rows(platform, node, spark, plan, rows, rows.count())
    rows.unpersist()
    return _recorded(platform, node, plan, results, run, alone=True)


def judge_refused(platform: Platform, node: Node, refusal: EpochRefusedError, run: str) -> Judgement | None:
    """Judge what the audit found of an epoch that it refused; None where no audit did."""
    if refusal.epoch is None:
        return None
    return _kept(platform, node, refusal.epoch, list(refusal.found), run, time.monotonic())


def _judged_rows(
    platform: Platform, node: Node, spark: SparkSession, plan: EpochPlan, rows: DataFrame, count: int
) -> tuple[list[InvariantResult], Relation]:
    """Judge an epoch's rows by what its plan could see; what was found, and the rows as queries have them."""
    node = effective(node, plan)
    with _shared(node, plan, "audit") as shared:
        inputs = _inputs(platform, node, spark, plan, shared)
        tables = platform.runner(node.pipeline).paths(node)
        relations = epoch_relations(spark, node, lambda name: getattr(tables, name), plan, rows, count, inputs)
        found = evaluate(spark, node, of_stage(node, "epoch"), Judged(relations, {"rows": count}, keep=shared.keep))
        return found, relations["rows"]()


def _recorded(
    platform: Platform, node: Node, plan: EpochPlan, audit: list[InvariantResult], run: str, alone: bool
) -> Judgement:
    start, spark = time.monotonic(), platform.session()
    there = committed(effective(node, plan), platform.runner(node.pipeline).paths(node), plan, alone)
    with _shared(node, plan, "checks") as shared:
        inputs = _inputs(platform, there.node, spark, plan, shared, there.scope == "whole")
        results = audit + evaluate(spark, there.node, of_stage(node, "table"), judged(spark, there, inputs, shared))
    return replace(_kept(platform, node, plan.epoch, results, run, start), table_rows=rows_of_table(spark, there))


def _kept(
    platform: Platform, node: Node, epoch: int, results: list[InvariantResult], run: str, start: float
) -> Judgement:
    import pyarrow as pa

    from expectations.history import SCHEMA, history
    from expectations.suite import judge

    order = {invariant.id: place for place, invariant in enumerate(invariants_of(node))}
    results.sort(key=lambda r: order[r.invariant.id])
    asset = f"{node.pipeline.name}.{node.name}"
    verdicts = judge(results, asset, f"epoch-{epoch:06d}", platform.settings.reports / "gx")
    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in SCHEMA.items()])
    with FileLock(platform.settings.home / "locks" / "quality.lock"):
        app_id = f"{asset}/{run}"
        append_lines(history(node, epoch, run, results), schema, platform.quality, app_id, epoch)
    return Judgement(epoch, results, verdicts, time.monotonic() - start)


def _inputs(
    platform: Platform, node: Node, spark: SparkSession, plan: EpochPlan, shared: SharedFrames, whole: bool = False
) -> InputRelations | None:
    from assets.operator_step import OperatorStep

    if node.operation is None:
        return None
    pinned = OperatorStep(node, platform.settings.tables).pinned(spark, plan)
    return InputRelations(spark, node, pinned, shared, everything=whole)


@contextmanager
def _shared(node: Node, plan: EpochPlan, what: str) -> Iterator[SharedFrames]:
    from infra.shared_frames import SharedFrames

    shared = SharedFrames(f"{node.pipeline.name}_{node.name}_{plan.epoch}_{what}_{uuid4().hex}")
    try:
        yield shared
    finally:
        shared.release()


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


def last_states(platform: Platform, node: Node) -> Mapping[str, tuple[str, int | None, int | None]]:
    """Invariant to (state, rows checked, violations) of the node's newest judgement; read without Spark."""
    import pyarrow.compute as pc

    wanted = (pc.field("pipeline") == node.pipeline.name) & (pc.field("node") == node.name)
    columns = ["epoch", "invariant", "state", "checked", "violations", "judged_at"]
    # An epoch that was refused and then released has been judged twice.
    lines = sorted(quality_lines(platform, wanted, columns), key=lambda line: line["judged_at"] or 0)
    last = max((line["epoch"] for line in lines), default=0)
    return {
        line["invariant"]: (line["state"], line["checked"], line["violations"])
        for line in lines
        if line["epoch"] == last
    }
