"""stream ⋈ table, profile 0.10.0: a left join alone, in which null values take part.

    right k a@1       nothing
    left  k null@2    null-a @2
    left  k B@5       B-a @5
    left  - C@7       nothing: in the late table

Source: released Kafka Streams 0.10.0 and 0.10.1, KStreamKTableLeftJoin. Held by
``tests/joins/stream_table/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.stream_table.lookups import at_once, look_up, rows_of, with_key_to_look_up
from rivermeet.pipelines import StreamTableJoin

READS_ONCE = True


def state(join: StreamTableJoin) -> StateRead:
    """The table before the epoch."""
    return {"right": "before"}


def compute(join: StreamTableJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    facts = inputs.keep(with_key_to_look_up(join, inputs.left, inputs))
    found = look_up(join, at_once(facts.where(F.col("mapped").isNotNull())), inputs)
    return rows_of(join, found, without=facts.where(F.col("mapped").isNull()))
