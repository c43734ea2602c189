"""stream ⋈ stream, eager: an unmatched record is emitted with null immediately, and no record is ever late.

before = after = 10, left join:

    left  A @0         A-null   timestamp 0
    right a @8         A-a      timestamp 8: an emitted null is never retracted
    right b @10^9      nothing; the right store's time is not the left one's
    right c @5         A-c      timestamp 5

A pair is lost only if the earlier record is no longer found in its side's store
(`joins.stream_stream.window_store`). Null values are ignored; a null key too in "0.10.2", while in "kafka-4" an outer
side's gives a one-sided row.

Profile "0.10.2" is what Kafka Streams did until 3.0; with ``eager`` "kafka-4" keeps it for windows declared the old
way (``JoinWindows.of``), over bounded stores.

Source: wiki page "Kafka Streams Join Semantics" (KStream-KStream before 3.1); released Kafka Streams 3.0 and 4.x.
Held by ``tests/joins/stream_stream/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.stream_stream.profile_3_1 import OUTER_SIDES
from rivermeet.joins.stream_stream.window_rows import frames, own_rows, pair_rows
from rivermeet.joins.stream_stream.window_store import (
    BOUNDED,
    SEGMENTED,
    alone,
    look_up,
    memory_of,
    not_kept,
    pairs,
    times,
)
from rivermeet.pipelines import StreamStreamJoin


def state(join: StreamStreamJoin) -> StateRead:
    """All earlier records: a store's time is not stream time, so records far behind it may be found."""
    return {"left": "earlier", "right": "earlier"}


def compute(join: StreamStreamJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`, and ``left_offset``, ``right_offset`` of the joined records."""
    store = BOUNDED if join.semantics == "kafka-4" else SEGMENTED
    memory = memory_of(inputs)
    records = inputs.keep(look_up(join, inputs, store, memory))
    found = inputs.keep(pairs(join, inputs, records, store, memory))
    rows = [pair_rows(found, F.greatest("by.timestamp", "found.timestamp"))]
    if join.how != "inner":
        rows.append(own_rows(alone(join, records, found)))
        if join.semantics == "kafka-4":
            keyless = F.col("key").isNull() & (F.col("left").isNotNull() | F.col("right").isNotNull())
            rows.append(own_rows(records.where(keyless & F.col("side").isin(*OUTER_SIDES[join.how]))))
    late = not_kept(join, records) if join.semantics == "kafka-4" else None
    return frames(join, inputs, rows, times(records, memory), late)
