"""Judging epochs: what each relation of the invariants is for a node and a plan, and where verdicts go."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filelock import FileLock

from expectations.evaluate import InvariantResult, Judged, Relation, evaluate
from expectations.invariants import Invariant, invariants_of
from expectations.verdict import Verdict
from infra.delta_io import last_note, quoted, read
from infra.delta_lines import append_lines, opened
from infra.plan import EpochPlan
from pipelines import Node, StreamStreamJoin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from assets.platform import Platform
    from infra.inputs import PinnedInputs
    from infra.refusal import EpochRefusedError
    from infra.step import Audit, EpochResult

Relations = Mapping[str, Callable[[], Relation]]


@dataclass(frozen=True)
class Judgement:
    """What was judged of a node's epoch; seconds of all of it."""

    epoch: int
    results: Sequence[InvariantResult]
    verdicts: Sequence[Verdict]
    seconds: float


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
        relations = epoch_relations(platform, node, spark, plan, rows)
        judged = Judged(relations, {"rows": counts["rows"]})
        results = evaluate(spark, node, of_stage(node, "epoch"), judged)
        broken = [r for r in results if r.invariant.blocking and not r.passed]
        try:
            settle(platform, node, plan, relations["rows"](), broken, run)
        except EpochRefusedError as refusal:
            refusal.epoch, refusal.found = plan.epoch, results
            raise
        return results

    return audit


def check_epoch(platform: Platform, node: Node, result: EpochResult, run: str) -> Judgement:
    """Judge a committed epoch's tables, and record that with what its audit found."""
    return _recorded(platform, node, result.plan, list(result.audit), run)


def check_again(platform: Platform, node: Node, run: str) -> Judgement | None:
    """Judge the last committed epoch once more; None where there is none yet."""
    runner, spark = platform.runner(node.pipeline), platform.session()
    paths = runner.paths(node)
    found = last_note(paths.changelog)
    if found is None:
        return None
    version, note = found
    body = runner.log.lines(node.name, "plan", note.epoch - 1)[note.epoch]
    plan = EpochPlan.model_validate_json(body)
    rows = read(spark, paths.changelog, version).where(f"epoch = {note.epoch}").persist()
    relations = epoch_relations(platform, node, spark, plan, rows)
    judged = Judged(relations, {"rows": rows.count()})
    results = evaluate(spark, node, of_stage(node, "epoch"), judged)
    rows.unpersist()
    return _recorded(platform, node, plan, results, run)


def judge_refused(platform: Platform, node: Node, refusal: EpochRefusedError, run: str) -> Judgement | None:
    """Judge what the audit found of an epoch that it refused; None where no audit did."""
    if refusal.epoch is None:
        return None
    return _judged(platform, node, refusal.epoch, list(refusal.found), run, time.monotonic())


def _recorded(platform: Platform, node: Node, plan: EpochPlan, audit: list[InvariantResult], run: str) -> Judgement:
    start, spark = time.monotonic(), platform.session()
    relations, checked = table_relations(platform, node, spark, plan)
    results = audit + evaluate(spark, node, of_stage(node, "table"), Judged(relations, checked))
    return _judged(platform, node, plan.epoch, results, run, start)


def _judged(
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


def table_relations(
    platform: Platform, node: Node, spark: SparkSession, plan: EpochPlan
) -> tuple[Relations, Mapping[str, int | None]]:
    """The node's committed changelog and table, pinned, what the epoch dropped, and how many rows were checked."""
    paths = platform.runner(node.pipeline).paths(node)
    found = last_note(paths.changelog)
    assert found is not None, paths.changelog
    records = sum(end + 1 for end in found[1].ends.values())
    relations: dict[str, Callable[[], Relation]] = {
        "changelog": lambda: _pinned(spark, paths.changelog, found[0]),
        "late": lambda: _late(spark, paths.late, plan),
    }
    checked: dict[str, int | None] = {
        "changelog": records,
        "late": sum(part.records for part in plan.inputs.values()),
    }
    table = opened(paths.table) if node.is_table else None
    if table is not None:
        rows = read(spark, paths.table, table.version())
        relations["table"] = lambda: _pinned(spark, paths.table, table.version())
        checked["table"] = rows.count()
    return relations, checked


def epoch_relations(platform: Platform, node: Node, spark: SparkSession, plan: EpochPlan, rows: DataFrame) -> Relations:
    """What an epoch's rows are judged against: exactly what their plan could see."""
    from assets.operator_step import OperatorStep, with_grace

    changelog = platform.runner(node.pipeline).paths(node).changelog
    epoch_sql = f"(SELECT * FROM delta.{quoted(changelog)} WHERE epoch = {plan.epoch})"
    relations: dict[str, Callable[[], Relation]] = {
        "rows": lambda: Relation(rows, epoch_sql),
        "bounds": lambda: _bounds(spark, plan),
    }
    if node.operation is None:
        return relations
    step = OperatorStep(node, platform.settings.tables)
    pinned = step.pinned(spark, plan)
    window = getattr(with_grace(node.operation, plan.grace), "window", None)
    slack = max(window.before, window.after) + window.grace if window else 0
    relations["before"] = lambda: _folded(node, spark, platform.runner(node.pipeline).paths(node).table, rows)
    relations["earlier"] = lambda: _earlier(node, pinned, rows, slack, changelog)
    for side in step.nodes:
        relations[side] = lambda side=side: _input(node, pinned, side, slack)
    return relations


def _pinned(spark: SparkSession, path: str, version: int) -> Relation:
    sql = f"(SELECT * FROM delta.{quoted(path)} VERSION AS OF {version})"
    return Relation(read(spark, path, version), sql)


def _late(spark: SparkSession, path: str, plan: EpochPlan) -> Relation:
    """What a committed epoch dropped."""
    table = opened(path)
    if table is None:
        nothing = "SELECT CAST(NULL AS STRING) AS reason WHERE false"
        return Relation(spark.sql(nothing), f"({nothing})")
    dropped = read(spark, path, table.version()).where(f"epoch = {plan.epoch}")
    return Relation(
        dropped, f"(SELECT * FROM delta.{quoted(path)} VERSION AS OF {table.version()} WHERE epoch = {plan.epoch})"
    )


def _bounds(spark: SparkSession, plan: EpochPlan) -> Relation:
    starts = [(partition, end + 1) for partition, end in plan.ends.items()]
    frame = spark.createDataFrame(starts, "partition INT, first_offset BIGINT")
    values = ", ".join(f"({p}, {start}L)" for p, start in starts)
    nothing = "(SELECT 0 AS partition, 0L AS first_offset WHERE false)"
    return Relation(frame, f"(SELECT * FROM VALUES {values} AS b(partition, first_offset))" if values else nothing)


def _folded(node: Node, spark: SparkSession, path: str, rows: DataFrame) -> Relation:
    """The folded result, which an epoch that is being judged has not reached yet."""
    from joins.changelog import flatten

    table = opened(path)
    if table is None:
        nothing = flatten(rows.where("false")).drop("_deleted")
        columns = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in nothing.dtypes)
        return Relation(nothing, f"(SELECT {columns} WHERE false)")
    return _pinned(spark, path, table.version())


def _earlier(node: Node, pinned: PinnedInputs, rows: DataFrame, slack: int, changelog: str) -> Relation:
    version = pinned.plan.output_version
    emitted = pinned.emitted(node, slack)
    if emitted is None or version is None:
        nothing = f"(SELECT * FROM delta.{quoted(changelog)} WHERE false)"
        return Relation(rows.where("false"), nothing)
    return Relation(emitted, f"(SELECT * FROM delta.{quoted(changelog)} VERSION AS OF {version})")


def _input(node: Node, pinned: PinnedInputs, side: str, slack: int) -> Relation:
    path, part = pinned.paths(side).changelog, pinned.plan.inputs[side]
    records = f"SELECT * FROM delta.{quoted(path)} VERSION AS OF {part.version}"
    if isinstance(node.join_spec, StreamStreamJoin):
        seen = pinned.new(side).unionByName(pinned.open_records(side, slack))
        return Relation(seen, f"({records})")
    last = "max_by(struct(value, timestamp, partition, offset), offset) AS last"
    live = f"(SELECT key, last.* FROM (SELECT key, {last} FROM ({records}) GROUP BY key) WHERE last.value IS NOT NULL)"
    return Relation(pinned.table(side, "after"), live)


def last_states(platform: Platform, node: Node) -> Mapping[str, tuple[str, int | None, int | None]]:
    """Invariant to (state, rows checked, violations) of the node's newest judgement; read without Spark."""
    import pyarrow.compute as pc

    table = opened(platform.quality)
    if table is None:
        return {}
    wanted = (pc.field("pipeline") == node.pipeline.name) & (pc.field("node") == node.name)
    columns = ["epoch", "invariant", "state", "checked", "violations"]
    lines = table.to_pyarrow_dataset().to_table(columns, filter=wanted).to_pylist()
    last = max((line["epoch"] for line in lines), default=0)
    return {
        line["invariant"]: (line["state"], line["checked"], line["violations"])
        for line in lines
        if line["epoch"] == last
    }
