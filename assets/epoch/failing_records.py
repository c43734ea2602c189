"""Skips records that a declared expression fails on: they are dead letters, and the epoch goes on without them.

``select={"rate": "left.amount / right.units"}`` and a right row with 0 units: ANSI SQL raises, and would raise in every
run to come. The record that cannot be joined is found by halving the epoch, in processing order, until one record makes
the difference between what can be computed and what cannot:

    left a, b, c, d; right x    fails
    right x, left a, b          can be computed
    right x, left a, b, c       fails: c is skipped
    left a, b, d; right x       can be computed, and is planned

What is skipped is part of the plan and of the commit's note: later epochs skip it too, and so do ``verify`` and a run
after a kill. A stream is without that record; in a table it is a tombstone, as its row cannot be made, and an older one
would be stale. Another declaration needs a rebuild in any case, and a rebuild skips nothing before it fails.

Nothing is skipped for an error that is not of the data (SQLSTATE class 22, and raise_error), or that an epoch without
records has as well. Held by ``tests/infra/epochs/test_failing_records.py``.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from rivermeet.infra.commit_note import Skipped
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.inputs import PinnedInputs
from rivermeet.infra.epochs.plan import EpochPlan, InputSlice
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.small_frames import frame_of
from rivermeet.joins.order import LEFT, RIGHT, in_processing_order
from rivermeet.pipelines import Operation, limits
from rivermeet.pipelines.plural import pluralize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OF_DATA = ("22", "P0001")
"""Starts of SQLSTATEs that a value causes."""


class Computing(Protocol):
    """What has to be computed for a plan, and for a part of it: `assets.epoch.operator_step.OperatorStep`."""

    @property
    def operation(self) -> Operation:
        """The declared operation."""
        ...

    def pin(self, spark: SparkSession, plan: EpochPlan) -> PinnedInputs:
        """The frames that the plan may read."""
        ...

    def slice(self, side: str, part: InputSlice) -> InputSlice:
        """A part of an input, with the versions that it needs."""
        ...

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """A function of the plan alone."""
        ...


class TooManyFailingRecordsError(EpochRefusedError):
    """More records than can be put down to bad data fail; the message says which expression does."""

    remedy = "Correct the declaration, and rebuild the node."


def without_failing_records(
    step: Computing, spark: SparkSession, plan: EpochPlan, error: Exception
) -> EpochPlan | None:
    """The plan without the records that make it fail; None where the error is none of the data's."""
    reason = _reason(error)
    if reason is None or _failure(step, spark, _cut_plan(step, spark, plan, 0)) is not None:
        return None
    skipped = plan
    while reason is not None:
        if len(skipped.skipped) - len(plan.skipped) == limits.FAILING_RECORDS:
            raise TooManyFailingRecordsError(
                f"'{plan.pipeline}.{plan.node}', epoch {plan.epoch}: more than "
                f"{pluralize(limits.FAILING_RECORDS, 'record')} cannot be joined: {reason}; correct the declaration, "
                f"and run `rivermeet rebuild {plan.pipeline} --select {plan.node}`",
                epoch=plan.epoch,
            )
        record = _first(step, spark, skipped)
        if record is None:
            return None
        skipped = skipped.model_copy(update={"skipped": (*skipped.skipped, record)})
        reason = _failure(step, spark, skipped)
    return skipped


def letters(pinned: PinnedInputs) -> DataFrame | None:
    """The epoch's skipped records as dead letters; None where there are none."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    schema = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("reason", pa.string())])
    found: list[DataFrame] = []
    for side in dict.fromkeys(record.side for record in pinned.plan.skipped):
        records = pinned.read_skipped(side)
        assert records is not None
        reasons = [(r.partition, r.offset, r.reason) for r in pinned.plan.skipped if r.side == side]
        known = frame_of(pinned.spark, reasons, schema)
        texts = (F.to_json(column, {"ignoreNullFields": "false"}).alias(column) for column in ("key", "value"))
        columns = (F.lit(side).alias("side"), "partition", "offset", *texts, "timestamp", "reason")
        found.append(records.join(known, ["partition", "offset"]).select(*columns))
    return reduce(DataFrame.unionByName, found) if found else None


def _first(step: Computing, spark: SparkSession, plan: EpochPlan) -> Skipped | None:
    """The record that makes the shortest failing beginning of the epoch fail."""
    passes, fails = 0, sum(part.records for part in plan.inputs.values())
    good, bad, reason = _cut_plan(step, spark, plan, 0), plan, ""
    while fails - passes > 1:
        middle = (passes + fails) // 2
        tried = _cut_plan(step, spark, plan, middle)
        found = _failure(step, spark, tried)
        if found is None:
            passes, good = middle, tried
        else:
            fails, bad, reason = middle, tried, found
    reason = reason or _failure(step, spark, bad) or ""
    for side, part in bad.inputs.items():
        for partition, end in part.upto.items():
            if end > good.inputs[side].upto.get(partition, -1):
                return Skipped(side=side, partition=partition, offset=end, reason=reason)
    return None


def _cut_plan(step: Computing, spark: SparkSession, plan: EpochPlan, count: int) -> EpochPlan:
    """The plan up to its ``count``-th record in processing order."""
    from pyspark.sql import DataFrame, Window
    from pyspark.sql import functions as F

    sides = {side: node for side, node in step.operation.inputs.items() if node.is_stored}
    plain = plan.model_copy(update={"skipped": ()})
    pinned = step.pin(spark, plain)
    places = {"left": LEFT, "right": RIGHT}
    ordered = [
        in_processing_order(pinned.new(side).select("partition", "offset", "timestamp"), places[side]).select(
            F.lit(side).alias("at"), "partition", "offset", "order"
        )
        for side in sides
    ]
    ranked = reduce(DataFrame.unionByName, ordered).withColumn("rank", F.row_number().over(Window.orderBy("order")))
    ends = ranked.where(F.col("rank") <= count).groupBy("at", "partition").agg(F.max("offset").alias("end")).collect()
    inputs = dict(plan.inputs)
    for side in sides:
        part = plan.inputs[side]
        upto = {p: end for p, end in part.after.items() if p in part.upto}
        upto |= {line.partition: line.end for line in ends if line["at"] == side}
        inputs[side] = step.slice(side, part.model_copy(update={"upto": upto}))
    return plan.model_copy(update={"inputs": inputs})


def _failure(step: Computing, spark: SparkSession, plan: EpochPlan) -> str | None:
    """Why the plan cannot be computed; None where it can."""
    shared = SharedFrames(f"failing_{plan.pipeline}_{plan.node}_{plan.epoch}", plan.records)
    try:
        frames = step.compute(spark, plan, shared)
        for frame in (frames.rows, *frames.sides.values()):
            frame.write.format("noop").mode("overwrite").save()
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        return reason
    finally:
        shared.release()
    return None


def _reason(error: Exception) -> str | None:
    """The error in one line; None where no value causes it."""
    from pyspark.errors import PySparkException

    if not isinstance(error, PySparkException) or not (error.getSqlState() or "").startswith(OF_DATA):
        return None
    return str(error).strip().partition("\n\nJVM stacktrace")[0].splitlines()[0][:500]
