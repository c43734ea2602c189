"""A node's rows, computed once more, at once, from all that it has consumed.

    epoch 1   took left 0..4, right 0..2        rows: those of (epoch, processing order)
    epoch 2   took left 5..5

An operation is computed from its inputs' changelogs, in the order in which its epochs took their records: (epoch, order
within the epoch). That is the replay of its own epoch log, so that every row must come out again, with its partition
and offset. Records that no epoch has taken are left out. A global table that is loaded at the start of each epoch goes
before that epoch's facts. Held by ``tests/infra/epochs/test_rebuild.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from rivermeet.assets.epoch.operator_step import OperatorStep
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.plan import EpochPlan, InputSlice
from rivermeet.infra.epochs.rows import with_offsets
from rivermeet.infra.small_frames import frame_of
from rivermeet.joins.order import LEFT, RIGHT, in_processing_order
from rivermeet.pipelines import Node, Operation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_MARKS = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("mark", pa.int64())])


def can_be_recomputed(node: Node) -> bool:
    """Whether a node is computed from changelogs alone: a view has rows and no records, and a source's files may go."""
    return node.operation is not None and all(part.is_stored for part in node.operation.inputs.values())


@dataclass(frozen=True)
class Recomputation:
    """A node over all that its epochs up to ``note`` have consumed, by the declared profile or by ``semantics``."""

    context: EpochContext
    node: Node
    note: CommitNote
    spark: SparkSession
    semantics: str | None = None

    def rows(self, shared: SharedFrames) -> DataFrame:
        """All rows of the node, with their offsets."""
        frames = replace(self._step, ordered=self.order_records).compute(self.spark, self._plan, shared)
        return with_offsets(frames.rows, self._plan)

    def take(self, side: str) -> DataFrame:
        """The records of an input, with the ``order`` in which they were taken."""
        pinned = self._step.pin(self.spark, self._plan)
        return self.order_records(pinned.new(side), {"left": LEFT, "right": RIGHT}[side])

    @property
    def _operation(self) -> Operation:
        assert self.node.operation is not None, "a source is not recomputed"
        return self.node.operation

    @cached_property
    def _step(self) -> OperatorStep:
        operation = self._operation.over_all_epochs()
        if self.semantics is not None and self.semantics != operation.semantics:
            operation = replace(operation, semantics=self.semantics)  # pyright: ignore[reportArgumentType]
        return OperatorStep(replace(self.node, origin=operation), self.context.tables)

    @cached_property
    def _plans(self) -> Sequence[EpochPlan]:
        """The plans of its incarnation, oldest first."""
        open_plans = self.context.log.open_plans(self.node.name, self.note.since - 1)
        wanted = self.note.epoch, self.note.incarnation
        return [plan for epoch, plan in open_plans.items() if epoch <= wanted[0] and plan.incarnation == wanted[1]]

    @cached_property
    def _plan(self) -> EpochPlan:
        consumed = self.note.consumed
        inputs = {side: InputSlice(version=0, after={}, upto=consumed.get(side, {})) for side in self._step.nodes}
        return self._plans[-1].model_copy(
            update={"inputs": inputs, "ends": {}, "stream_time": {}, "output_version": None, "previous_epoch": 0}
        )

    def order_records(self, records: DataFrame, side: int) -> DataFrame:
        """An input's records with the ``order`` and ``commit`` that they had over all epochs of the node."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        name = "left" if side == LEFT else "right"
        took = [(plan.epoch, plan.inputs[name].upto) for plan in self._plans if name in plan.inputs]
        ends = [(p, end, epoch) for epoch, upto in took for p, end in upto.items()]
        marks = frame_of(self.spark, ends, _MARKS)
        both = records.withColumn("mark", F.lit(None).cast("bigint")).unionByName(marks, allowMissingColumns=True)
        # An epoch that took nothing of a partition ends where the one before did: the first of them took the record.
        behind = Window.partitionBy("partition").orderBy(F.col("offset").desc(), F.col("mark").desc_nulls_last())
        upto = behind.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        taken = both.withColumn("taken", F.min("mark").over(upto)).where("mark IS NULL").drop("mark")
        # The records of each epoch are ordered as that epoch had them: heads start afresh with it.
        place = F.struct(F.col("taken"), F.col("partition"))
        within = in_processing_order(taken.withColumn("__p", F.col("partition")).withColumn("partition", place), side)
        first = F.lit(-side if self._operation.table_first else 0)
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
