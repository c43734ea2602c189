"""stream ⋈ stream of the first releases: eager, null values join, and a left join only looks up.

before = after = 10, left join:

    left  A @0       A-null       timestamp 0
    right a @8       nothing: a right record is stored and does not look up
    left  B @9       B-a          timestamp 9
    left  null @9    null-a       timestamp 9: a null value is a value, but is not stored

Every row has its trigger's timestamp. There is no grace: a store keeps three segments of twelve hours
(`joins.stream_stream.window_store`). A null key is ignored.

Source: wiki page "Kafka Streams Join Semantics" (0.10.0 and 0.10.1); released Kafka Streams 0.10.1. Held by
``tests/joins/stream_stream/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.order import LEFT
from rivermeet.joins.stream_stream.window_rows import frames, own_rows, pair_rows
from rivermeet.joins.stream_stream.window_store import EARLY, alone, look_up, memory_of, pairs, times
from rivermeet.pipelines import StreamStreamJoin


def state(join: StreamStreamJoin) -> StateRead:
    """All earlier records: a store's time is not stream time, so records far behind it may be found."""
    return {"left": "earlier", "right": "earlier"}


def compute(join: StreamStreamJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`, and ``left_offset``, ``right_offset`` of the joined records."""
    memory = memory_of(inputs)
    records = look_up(join, inputs, EARLY, memory)
    if join.how == "left":
        records = records.withColumn("asks", F.col("asks") & (F.col("side") == LEFT))
    records = inputs.keep(records)
    found = inputs.keep(pairs(join, inputs, records, EARLY, memory))
    rows = [pair_rows(found, F.col("by.timestamp"))]
    if join.how != "inner":
        rows.append(own_rows(alone(join, records, found)))
    return frames(join, inputs, rows, times(records, memory))
