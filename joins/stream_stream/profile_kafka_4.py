"""stream ⋈ stream as released Kafka Streams 4.x runs it: unmatched records wait until a gate emits them.

With S stream time after x and "newest" the end of x's window (cut at 0), record x gives in this order:

1. if its timestamp is S: one-sided rows of records that the gate emits (`joins.stream_stream.emission_gate`);
2. its pairs, by (timestamp, arrival) of the records found in the other side's store
   (`joins.stream_stream.window_store`);
3. without a pair and on an outer side: its own one-sided row if newest < S, whatever the grace; otherwise it waits.

A null key on an outer side gives a one-sided row immediately; a null value only advances S. Left join, before = after =
10, no grace:

    left  A @0, B @5, C @8    all wait
    right a @11               A-null; B-a, C-a   timestamp 11 (what leaves comes first)
    right b @30               nothing: B and C have found a partner
    left  D @3                D-null   timestamp 3: 3 + 10 < 30

Rows may be spurious: D-null was emitted, and a right d @4 still finds D. Records that the stores no longer keep are in
the late table, as Kafka counts them among dropped records; they are still joined with whatever they find.

A self-join's record is a left and then a right one, which finds the left. ``optimized`` has one store instead, and a
record joins itself at its timestamp's place, without a test of the window.

Source: released Kafka Streams 4.x (KStreamKStreamJoin, KStreamKStreamSelfJoin). Held by
``tests/joins/stream_stream/test_recorded.py``.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.order import LEFT
from rivermeet.joins.stream_stream import profile_0_10_2 as stream_stream_eager
from rivermeet.joins.stream_stream.emission_gate import EVENT, MIN_TIME, SCAN, WAIT, run_scans
from rivermeet.joins.stream_stream.profile_3_1 import OUTER_SIDES
from rivermeet.joins.stream_stream.self_join import COPIES
from rivermeet.joins.stream_stream.window_rows import frames, one_sided_rows, own_rows, pair_rows
from rivermeet.joins.stream_stream.window_store import (
    BOUNDED,
    alone,
    look_up,
    memory_of,
    not_kept,
    of_side,
    pairs,
    times,
)
from rivermeet.pipelines import StreamStreamJoin

GATE, PAIRS, AT_ONCE = 0, 1, 2
"""Phases of a record."""


def state(join: StreamStreamJoin) -> StateRead:
    """All earlier records: a store's time is not stream time, so records far behind it may be found."""
    return {"left": "earlier", "right": "earlier"}


def compute(join: StreamStreamJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`, and ``left_offset``, ``right_offset`` of the joined records."""
    if join.how == "inner" or join.eager:
        # An inner join has no one-sided rows, and eager affects only those.
        return stream_stream_eager.compute(join, inputs)
    memory = memory_of(inputs)
    known = None if memory is None else memory.where(F.col("waiting_offset").isNull())
    records = inputs.keep(look_up(join, inputs, BOUNDED, known))
    found = inputs.keep(pairs(join, inputs, records, BOUNDED, known))
    lonely = inputs.keep(alone(join, records, found))
    at_once = F.col("latest") < F.col("time")
    waiting = inputs.keep(_find_waiting(join, inputs, lonely.where(~at_once), found, memory))
    gate = inputs.keep(run_scans(_events(records, waiting, known)))
    listed, left = gate.where(F.col("kind") == WAIT), F.col("by_offset").isNotNull()
    released = listed.where(left).select("partition", "side", "offset", "by_side", "by_offset", "at")
    left_by_gate = released.join(waiting.drop("at"), ["partition", "side", "offset"])
    keyless = F.col("key").isNull() & (F.col("left").isNotNull() | F.col("right").isNotNull())
    rows = [
        one_sided_rows(left_by_gate, F.col("by_side"), F.col("by_offset"), F.col("at"), GATE),
        pair_rows(found, F.greatest("by.timestamp", "found.timestamp"), PAIRS),
        own_rows(lonely.where(at_once), AT_ONCE),
        own_rows(records.where(keyless & F.col("side").isin(*OUTER_SIDES[join.how])), AT_ONCE),
    ]
    min_time = gate.where(F.col("kind") == MIN_TIME).select("partition", F.col("timestamp").alias("min_time"))
    stay = listed.where(~left).select(
        "partition", F.col("side").alias("waiting_side"), F.col("offset").alias("waiting_offset")
    )
    stores = None if known is None else known.select("partition", "left_time", "right_time")
    left_over = times(records, stores, min_time).unionByName(stay, allowMissingColumns=True)
    return frames(join, inputs, rows, left_over, not_kept(join, records))


def _slack() -> Column:
    """How long (ms) after its timestamp a record may not be emitted; can be negative."""
    bound = F.when(F.col("side") == LEFT, F.col("window_after")).otherwise(F.col("window_before"))
    return bound + F.col("window_grace")


def _find_waiting(
    join: StreamStreamJoin, inputs: EpochInputs, new: DataFrame, found: DataFrame, memory: DataFrame | None
) -> DataFrame:
    """All records that wait at some time: since ``at``, ``until`` they find a partner; their ``place`` in the list."""
    columns = ("partition", "side", "offset", "key", "timestamp", "window_before", "window_after", "window_grace")
    waiting = new.select(*columns, "left", "right", "at")
    if memory is not None:
        for name, side in COPIES.items():
            if side not in OUTER_SIDES[join.how]:
                continue
            listed = memory.where(F.col("waiting_side") == side)
            listed = listed.select("partition", F.col("waiting_offset").alias("offset"))
            earlier = inputs.earlier(name).join(F.broadcast(listed), ["partition", "offset"], "left_semi")
            still = of_side(join, inputs, earlier, side).select(*columns, name)
            waiting = waiting.unionByName(
                still.select("*", F.lit(0).cast("bigint").alias("at")), allowMissingColumns=True
            )
    found_first = found.groupBy(
        "partition", F.col("found.side").alias("side"), F.col("found.offset").alias("offset")
    ).agg(F.min("by.at").alias("until"))
    listed = Window.partitionBy("partition").orderBy("timestamp", F.desc("side"), "key", "offset")
    return (
        waiting.join(found_first, ["partition", "side", "offset"], "left")
        .select("*", F.row_number().over(listed).cast("bigint").alias("place"))
        .select("*", _slack().alias("slack"))
    )


def _events(records: DataFrame, waiting: DataFrame, memory: DataFrame | None) -> DataFrame:
    """Events of `joins.stream_stream.emission_gate`."""

    def events(frame: DataFrame, kind: int) -> DataFrame:
        named = frame.select("*", F.lit(kind).alias("kind"))
        return named.select(
            *(F.col(name) if name in named.columns else F.lit(None).cast(of).alias(name) for name, of in EVENT.items())
        )

    scanning = records.where(F.col("asks") & (F.col("timestamp") == F.col("time"))).select("*", _slack().alias("slack"))
    every = [events(scanning, SCAN), events(waiting, WAIT)]
    if memory is not None:
        start = memory.select("partition", F.col("min_time").alias("timestamp"), F.lit(0).cast("bigint").alias("at"))
        every.append(events(start, MIN_TIME))
    return reduce(DataFrame.unionByName, every)
