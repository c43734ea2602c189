"""Result rows of look-ups in window stores: pairs, and records without partner.

Within one trigger rows come by ``phase``, which the profile chooses, and in it by timestamp, right before left, key
and arrival: right b @7 finds left A @9 and left B @3, so the rows are B-b, A-b.

Source: released Kafka Streams 4.x (a window store is scanned by timestamp). Held by
``tests/joins/stream_stream/test_recorded.py``.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs
from rivermeet.joins.order import LEFT, RIGHT, in_words
from rivermeet.joins.provenance import trigger_of
from rivermeet.joins.values import join_values
from rivermeet.pipelines import StreamStreamJoin


def frames(
    join: StreamStreamJoin,
    inputs: EpochInputs,
    rows: list[DataFrame],
    memory: DataFrame,
    late: DataFrame | None = None,
) -> EpochFrames:
    """An epoch's frames of rows that still hold both records."""
    result = reduce(DataFrame.unionByName, rows)
    value = join_values(join.select)
    return EpochFrames(
        result.select("*", value.alias("value")).drop("left", "right"), late, memory, timed=(inputs.left, inputs.right)
    )


def pair_rows(pairs: DataFrame, timestamp: Column, phase: int = 0) -> DataFrame:
    """Pairs as result rows: by (timestamp of what was found, its arrival)."""
    return pairs.select(
        "key",
        timestamp.alias("timestamp"),
        "partition",
        trigger_of(in_words(F.col("by.side")), offset="by.offset"),
        "left_offset",
        "right_offset",
        _sequence(F.col("by.at"), phase, F.col("found.timestamp"), F.lit(0), F.col("key"), F.col("found.offset")),
        "left",
        "right",
    )


def one_sided_rows(records: DataFrame, side: Column, offset: Column, at: Column, phase: int = 0) -> DataFrame:
    """Records without partner as result rows, each under its trigger: by (timestamp, right before left, key, arrival).

    Parameters
    ----------
    side, offset, at
        Of the record that triggers the row.
    """
    own_side = F.col("side")
    return records.select(
        "key",
        "timestamp",
        "partition",
        trigger_of(in_words(side), offset=offset),
        F.when(own_side == LEFT, F.col("offset")).alias("left_offset"),
        F.when(own_side == RIGHT, F.col("offset")).alias("right_offset"),
        _sequence(at, phase, F.col("timestamp"), RIGHT - own_side, F.col("key"), F.col("offset")),
        "left",
        "right",
    )


def own_rows(records: DataFrame, phase: int = 0) -> DataFrame:
    """Records without partner as result rows that they trigger themselves."""
    return one_sided_rows(records, F.col("side"), F.col("offset"), F.col("at"), phase)


def _sequence(at: Column, phase: int, timestamp: Column, rank: Column, key: Column, offset: Column) -> Column:
    return F.struct(
        at.alias("at"),
        F.lit(phase).alias("phase"),
        timestamp.alias("timestamp"),
        rank.alias("rank"),
        key.alias("key"),
        offset.alias("offset"),
    ).alias("sequence")
