"""Verification: what a node's changelog and table hold, against what its plans give when they are computed once more.

An operation is computed in one pass from its inputs' changelogs, in the order in which its epochs took their records:
(epoch, order within the epoch). That is the replay of its own epoch log, so that every row must come out again, with
its partition and offset. Records that no epoch has taken are left out:

    epoch 1   took left 0..4, right 0..2        recomputed rows: those of (epoch, processing order)
    epoch 2   took left 5..5                    compared with the changelog by (partition, offset)

A global table that is loaded at the start of each epoch goes before that epoch's facts. Of two kinds of nodes only the
table is compared: of a source, as its files may be gone, and of a join with a view, which has rows and no records.
Held by ``tests/infra/epochs/test_rebuild.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from assets.epoch.operator_step import OperatorStep
from infra.delta.io import last_note, read
from infra.epochs.plan import CommitNote, EpochPlan, InputSlice
from pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from assets.epoch.platform import Platform
    from infra.epochs.context import EpochContext

SHOWN = 5
RECORD = ("key", "value", "timestamp")


@dataclass(frozen=True)
class Verified:
    """What was compared of a node.

    Attributes
    ----------
    rows
        Rows of the changelog; None where it was not computed again.
    differing
        Rows that are missing, too many or other; ``first`` has the first of them: partition, offset, ``committed`` and
        ``recomputed``, as JSON, None where there is no such row.
    table_differs
        Rows by which the table is not the fold of the changelog; None of a stream.
    """

    node: Node
    epoch: int
    rows: int | None
    differing: int
    first: Sequence[Mapping[str, Any]]
    table_differs: int | None

    @property
    def holds(self) -> bool:
        """Whether all that was compared is equal."""
        return not self.differing and not self.table_differs


def verify(runner: EpochContext, node: Node) -> Verified | None:
    """Compare a node with its recomputation; None where nothing is committed yet.

    No table of the node is written. Cost: one epoch over all that the node has consumed.
    """
    from infra.engine.shared_frames import SharedFrames

    paths, spark = runner.paths(node), runner.session()
    found = last_note(paths.changelog)
    if found is None:
        return None
    version, note = found
    shared = SharedFrames(f"verify_{paths.pipeline}_{paths.node}")
    try:
        rows, differing, first = None, 0, []
        if node.operation is not None and all(part.is_stored for part in node.operation.inputs.values()):
            rows = sum(end + 1 for end in note.ends.values())
            recomputed = _recomputed(runner, node, note, spark, shared)
            bad = shared.keep(_differences(read(spark, paths.changelog, version), recomputed))
            differing = bad.count()
            first = [row.asDict() for row in bad.orderBy("partition", "offset").limit(SHOWN).collect()]
        table = _table_differs(spark, runner, node, note) if node.is_table else None
        return Verified(node, note.epoch, rows, differing, first, table)
    finally:
        shared.release()


def record(platform: Platform, found: Verified, seconds: float) -> None:
    """Keep what was compared in the quality table, where the report finds it; nothing where nothing was."""
    from assets.quality.quality_table import remember
    from expectations.results import InvariantResult
    from expectations.rules.verify import VERIFY

    if found.rows is None and found.table_differs is None:
        return
    sample = [{name: "" if value is None else str(value) for name, value in row.items()} for row in found.first]
    bad = found.differing + (found.table_differs or 0)
    result = InvariantResult(VERIFY, found.rows, bad, sample, "", seconds, scope="whole")
    remember(platform.quality, found.node, found.epoch, [result], f"verify-{uuid4().hex}", "verify")


def _recomputed(runner: EpochContext, node: Node, note: CommitNote, spark: SparkSession, shared: Any) -> DataFrame:
    from infra.epochs.rows import with_offsets

    plans = [
        plan
        for epoch, plan in runner.log.open_plans(node.name, note.since - 1).items()
        if epoch <= note.epoch and plan.incarnation == note.incarnation
    ]
    assert node.operation is not None
    step = OperatorStep(replace(node, origin=node.operation.over_all_epochs()), runner.tables)
    inputs = {side: InputSlice(version=0, after={}, upto=note.consumed.get(side, {})) for side in step.nodes}
    whole = plans[-1].model_copy(
        update={"inputs": inputs, "ends": {}, "stream_time": {}, "output_version": None, "previous_epoch": 0}
    )
    frames = replace(step, ordered=_by_epoch(spark, plans, node.operation.table_first)).compute(spark, whole, shared)
    return with_offsets(frames.rows, whole)


def _by_epoch(
    spark: SparkSession, plans: Sequence[EpochPlan], table_first: bool
) -> Callable[[DataFrame, int], DataFrame]:
    """Gives records the ``order`` and ``commit`` that they had over all epochs."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from joins.order import LEFT, in_processing_order

    def ordered(records: DataFrame, side: int) -> DataFrame:
        name = "left" if side == LEFT else "right"
        ends = [(p, end, plan.epoch) for plan in plans for p, end in _slice(plan, name).upto.items()]
        marks = spark.createDataFrame(ends, "partition INT, offset BIGINT, mark BIGINT")
        both = records.withColumn("mark", F.lit(None).cast("bigint")).unionByName(marks, allowMissingColumns=True)
        # An epoch that took nothing of a partition ends where the one before did: the first of them took the record.
        behind = Window.partitionBy("partition").orderBy(F.col("offset").desc(), F.col("mark").desc_nulls_last())
        upto = behind.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        taken = both.withColumn("taken", F.min("mark").over(upto)).where("mark IS NULL").drop("mark")
        # The records of each epoch are ordered as that epoch had them: heads start afresh with it.
        place = F.struct(F.col("taken"), F.col("partition"))
        within = in_processing_order(taken.withColumn("__p", F.col("partition")).withColumn("partition", place), side)
        first = F.lit(-side if table_first else 0)
        order = F.struct(
            F.col("taken"),
            first.alias("loaded"),
            F.col("order.head").alias("head"),
            F.col("order.side").alias("side"),
            F.col("__p").alias("partition"),
            F.col("order.offset").alias("offset"),
        )
        named = within.withColumns({"order": order, "commit": F.col("taken"), "partition": F.col("__p")})
        return named.drop("__p", "taken")

    return ordered


def _slice(plan: EpochPlan, side: str) -> InputSlice:
    return plan.inputs.get(side) or InputSlice(version=0, after={}, upto={})


def _differences(committed: DataFrame, recomputed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    place = ["partition", "offset"]

    def shown(frame: DataFrame, name: str) -> DataFrame:
        row = F.to_json(F.struct(*RECORD), {"ignoreNullFields": "false"})
        return frame.select(*place, row.alias(name))

    both = shown(committed, "committed").join(shown(recomputed, "recomputed"), place, "full_outer")
    return both.where(~F.col("committed").eqNullSafe(F.col("recomputed")))


def _table_differs(spark: SparkSession, runner: EpochContext, node: Node, note: CommitNote) -> int | None:
    from pyspark.sql import functions as F

    from infra.delta.changelog_files import records
    from records.changelog import table_rows

    paths = runner.paths(node)
    folded = last_note(paths.table)
    if folded is None:
        return None
    version, upto = folded
    if upto.incarnation != note.incarnation:
        # Behind by a rebuild that was killed: the next run folds it.
        return None
    changelog = records(spark, paths.changelog, {}, upto.ends)
    wanted = table_rows(changelog).where(~F.col("_deleted")).drop("_deleted")
    columns = [*node.key, *node.value, "_timestamp", "_partition", "_offset"]
    held = read(spark, paths.table, version).select(*(F.col(f"`{c}`") for c in columns))
    wanted = wanted.select(*(F.col(f"`{c}`") for c in columns))
    return wanted.exceptAll(held).count() + held.exceptAll(wanted).count()
