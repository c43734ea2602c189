"""The processing order of two inputs: by head timestamp, as one sort.

Kafka Streams takes the next record from the input whose first waiting record has the lower timestamp, the left one on
a tie (KIP-353). That is the order of (running maximum of ``timestamp`` over ``offset`` in the record's own input and
partition, side, partition, offset):

    left 10, 5    right 7, 12      right 7, left 10, left 5, right 12

Source: wiki page "Kafka Streams Join Semantics" (timestamp synchronization); the proof is in
docs/decisions/order-within-an-epoch.md. Held by ``tests/joins``, where the reference joins compare heads. Within an
epoch the maxima start afresh: what earlier epochs consumed is gone from the inputs, so it no longer heads anything.
"""

from __future__ import annotations

import json

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from rivermeet.joins.operator import EpochInputs
from rivermeet.records.known_schemas import like

_NUMBERS = {"head": LongType(), "side": IntegerType(), "partition": IntegerType(), "offset": LongType()}
_ORDER = StructType([StructField(name, kind) for name, kind in _NUMBERS.items()])
LEFT, RIGHT = 0, 1
"""Sides as they are ordered; ``left`` and ``right`` in words."""


def in_words(side: Column) -> Column:
    """``left`` or ``right``."""
    return F.when(side == LEFT, F.lit("left")).otherwise(F.lit("right"))


def in_processing_order(records: DataFrame, side: int) -> DataFrame:
    """The records of one input with ``order``, a STRUCT that sorts the records of both inputs of an epoch.

    ``commit`` is 0: an epoch is one commit of a cache.

    Parameters
    ----------
    records
        Columns ``partition``, ``offset``, ``timestamp`` and any others.
    side
        `LEFT` or `RIGHT`.
    """
    running = up_to_here(Window.partitionBy("partition").orderBy("offset"))
    ordered = records.select(
        "*",
        F.struct(
            F.max("timestamp").over(running).alias("head"),
            F.lit(side).alias("side"),
            F.col("partition"),
            F.col("offset"),
        ).alias("order"),
    ).select("*", F.lit(0).cast("bigint").alias("commit"))
    return like(ordered, records, StructField("order", _ORDER), StructField("commit", LongType()))


def per_key(*key: str) -> WindowSpec:
    """A window for each value of key columns, which may be structs.

    Spark compares the first eight bytes of what it sorts by before it looks at the rows. A struct has none of them; a
    hash in front of it has, and they nearly always suffice.
    """
    return Window.partitionBy(F.xxhash64(*key), *key)


def stream_time_at_start(inputs: EpochInputs) -> Column:
    """Stream time (ms) of a row's partition before the epoch; NULL if it has none yet."""
    times = inputs.stream_time
    by_place = [times.get(p) for p in range(max(times, default=-1) + 1)]
    # Looked up by index: a map of a thousand partitions would be searched for every row.
    return F.get(F.from_json(F.lit(json.dumps(by_place)), "ARRAY<BIGINT>"), F.col("partition"))


def last_known(column: str | Column, window: WindowSpec) -> Column:
    """The last value of a window's rows that is not NULL."""
    return F.last(column, ignorenulls=True).over(window)


def up_to_here(order: WindowSpec) -> WindowSpec:
    """The rows of an ordered window up to the current one."""
    return order.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def before_here(order: WindowSpec) -> WindowSpec:
    """The rows of an ordered window before the current one."""
    return order.rowsBetween(Window.unboundedPreceding, -1)
