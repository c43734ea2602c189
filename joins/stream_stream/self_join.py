"""A stream joined with itself: every record is processed twice, as a left one and then as a right one.

Both inputs of a self-join are the same records. With the usual interleaving, the left copies of several records
would come before the first right copy; here the copies of one record follow each other:

    records x, y     x as left, x as right, y as left, y as right

Source: released Kafka Streams 4.x, where one record of the topic goes down the left and then the right branch.
Held by ``tests/joins/stream_stream/test_recorded.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochInputs, Side
from rivermeet.joins.order import LEFT, RIGHT
from rivermeet.pipelines import StreamStreamJoin

COPIES: Mapping[Side, int] = {"left": LEFT, "right": RIGHT}


def is_self_join(join: StreamStreamJoin) -> bool:
    """Whether both sides are one stream."""
    return join.left is join.right


def both_inputs(join: StreamStreamJoin, inputs: EpochInputs) -> Mapping[Side, DataFrame]:
    """Side to the epoch's records; those of a self-join with an ``order`` in which copies follow each other."""
    if not is_self_join(join):
        return inputs.records
    return {
        name: inputs.left.withColumn("order", F.struct(F.col("order").alias("record"), F.lit(side).alias("copy")))
        for name, side in COPIES.items()
    }
