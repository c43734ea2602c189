"""Streams are compared as multisets of (key, value, timestamp): a row counts as often as it came, in any order.

ours      a 1 @5, a 1 @5, b 2 @7        theirs    b 2 @7, a 1 @5        a 1 @5: missing once
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.shadow.answers import PROVENANCE, Answers, both_sides, history


def count_rows(answers: Answers) -> DataFrame:
    """One row per (key, value, timestamp) of either answer.

    Returns
    -------
    DataFrame
        ``key``, ``value``, ``timestamp``; ``ours`` and ``theirs``, the last such row with its place and provenance,
        NULL where there is none; ``copies``, by how many the counts differ, and ``missing``,
        whether ours has more.
    """
    mine = F.col("mine")
    place, newest = F.struct("partition", "offset", *PROVENANCE), F.struct("partition", "offset")
    by_row = (
        both_sides(answers)
        .groupBy("key", "value", "timestamp")
        .agg(
            F.max_by(place, F.when(mine, newest)).alias("m"),
            F.max_by(place, F.when(~mine, newest)).alias("t"),
            F.count_if(mine).alias("own_rows"),
            F.count_if(~mine).alias("their_rows"),
        )
    )

    def row_at(of: str) -> Column:
        parts = (F.col(f"{of}.{part}").alias(part) for part in ("partition", "offset", *PROVENANCE))
        return F.struct(*parts, "timestamp", "value")

    return by_row.select(
        "key",
        "value",
        "timestamp",
        F.when(F.col("own_rows") > 0, row_at("m")).alias("ours"),
        F.when(F.col("their_rows") > 0, row_at("t")).alias("theirs"),
        F.abs(F.col("own_rows") - F.col("their_rows")).alias("copies"),
        (F.col("own_rows") > F.col("their_rows")).alias("missing"),
    )


def stream_totals(answers: Answers, by_row: DataFrame) -> DataFrame:
    """One row: ``keys`` (distinct rows), ``equal`` ones, and ``otherwise``: keys of equal rows in another order."""
    mine = F.col("mine")
    by_key = (
        both_sides(answers)
        .groupBy("key")
        .agg(history(mine, "value", "timestamp").alias("own"), history(~mine, "value", "timestamp").alias("their"))
    )
    unequal = by_row.where("copies > 0").select("key").distinct().withColumn("differs", F.lit(True))
    same_keys = by_key.join(unequal, by_key["key"].eqNullSafe(unequal["key"]), "left_anti")
    moved = same_keys.agg(F.count_if(F.col("own") != F.col("their")).alias("otherwise"))
    rows = by_row.agg(F.count("*").alias("keys"), F.count_if(F.col("copies") == 0).alias("equal"))
    return rows.crossJoin(moved)
