"""stream ⋈ table, profile 0.10.2: as 3.1, but a record without a key to look up is ignored, also in a left join.

    left  k A@3       A-null @3
    right k a@9       nothing
    left  k B@5       B-a @5
    left  - C@7       nothing: in the late table

Source: released Kafka Streams 0.10.2 to 3.0, KStreamKTableJoin; KIP-962 for what changed. Held by
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
    facts = inputs.keep(with_key_to_look_up(join, inputs.left.where(F.col("value").isNotNull()), inputs))
    found = look_up(join, at_once(facts.where(F.col("mapped").isNotNull())), inputs)
    if join.how == "inner":
        found = found.where(F.col("right").isNotNull())
    return rows_of(join, found, without=facts.where(F.col("mapped").isNull()))
