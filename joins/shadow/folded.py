"""Both answers folded: a table to the last row of each key, a stream to how often each row came.

    tables    ours  a 1, a 2, b 1, b null    theirs  a 2, b 1             b: extra; a: equal, came otherwise
    streams   ours  a 1 @5, a 1 @5, b 2 @7   theirs  b 2 @7, a 1 @5       a 1 @5: missing once

What came before the last row of a table, and in which order, makes no difference. A key lives in one partition, so that
its highest offset is its last row. Its value is compared, and no timestamp: a foreign-key join's depends on which side
came last. Streams are compared as multisets of (key, value, timestamp), in any order.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.shadow.answers import PROVENANCE, RECORD, Answers, hash_history, unite_answers


def fold_answers(answers: Answers) -> DataFrame:
    """One row per key of either answer.

    Returns
    -------
    DataFrame
        ``key``; ``ours`` and ``theirs``, the last row with its place and provenance, NULL where there is none;
        ``equal``; ``otherwise``, whether other rows came before it, or in another order.
    """
    mine, keyed = F.col("mine"), unite_answers(answers).where(F.col("key").isNotNull())
    histories = {"own_history": hash_history(mine, "value"), "their_history": hash_history(~mine, "value")}
    return _last_rows(keyed, ["key"], **histories).select(
        "key",
        "ours",
        "theirs",
        F.col("ours.value").eqNullSafe(F.col("theirs.value")).alias("equal"),
        (F.col("own_history") != F.col("their_history")).alias("otherwise"),
    )


def name_kind(is_stale: Column) -> Column:
    """How two folded rows of a key differ; ``is_stale``: whether theirs is of records that were replaced."""
    ours, theirs = F.col("ours.value").isNotNull(), F.col("theirs.value").isNotNull()
    both = F.when(is_stale, "stale").otherwise("other")
    return F.when(ours & ~theirs, "missing").when(~ours & theirs, "extra").otherwise(both)


def count_rows(answers: Answers) -> DataFrame:
    """One row per (key, value, timestamp) of either answer.

    Returns
    -------
    DataFrame
        ``key``, ``value``, ``timestamp``; ``ours`` and ``theirs``, the last such row as in `fold_answers`;
        ``copies``, by how many the counts differ, and ``missing``, whether ours has more.
    """
    more = F.col("own_rows") - F.col("their_rows")
    by_row = _last_rows(unite_answers(answers), ["key", "value", "timestamp"])
    counted = by_row.withColumns({"copies": F.abs(more), "missing": more > 0})
    return counted.drop("own_rows", "their_rows")


def _last_rows(rows: DataFrame, by: list[str], **more: Column) -> DataFrame:
    """By some columns the last row of each side, ``ours`` and ``theirs``, and ``own_rows``, ``their_rows``."""
    mine, last, place = F.col("mine"), F.struct(*RECORD, *PROVENANCE), F.struct("offset", "partition")
    found = rows.groupBy(*by).agg(
        F.max_by(last, F.when(mine, place)).alias("ours"),
        F.max_by(last, F.when(~mine, place)).alias("theirs"),
        F.count_if(mine).alias("own_rows"),
        F.count_if(~mine).alias("their_rows"),
        *(column.alias(name) for name, column in more.items()),
    )
    # Of a side without rows, max_by gives a row of the other one.
    counts = {"ours": F.col("own_rows"), "theirs": F.col("their_rows")}
    return found.withColumns({side: F.when(count > 0, F.col(side)) for side, count in counts.items()})


def same_row(one: str, other: str) -> Column:
    """Whether two aliased frames have the same row: key, value and timestamp."""
    same = F.col(f"{one}.timestamp") == F.col(f"{other}.timestamp")
    for column in ("key", "value"):
        same = same & F.col(f"{one}.{column}").eqNullSafe(F.col(f"{other}.{column}"))
    return same


def count_totals(by_key: DataFrame) -> DataFrame:
    """One row: ``keys``, ``equal``, and ``otherwise``, those of the equal ones that came otherwise."""
    equal = F.col("equal")
    return by_key.agg(
        F.count("*").alias("keys"),
        F.count_if(equal).alias("equal"),
        F.count_if(equal & F.col("otherwise")).alias("otherwise"),
    )


def count_stream_totals(answers: Answers, by_row: DataFrame) -> DataFrame:
    """One row: ``keys`` (distinct rows), ``equal`` ones, and ``otherwise``: keys of equal rows in another order."""
    mine, came = F.col("mine"), ("value", "timestamp")
    histories = hash_history(mine, *came).alias("own"), hash_history(~mine, *came).alias("their")
    by_key = unite_answers(answers).groupBy("key").agg(*histories)
    unequal = by_row.where("copies > 0").select("key").distinct().withColumn("differs", F.lit(True))
    same_keys = by_key.join(unequal, by_key["key"].eqNullSafe(unequal["key"]), "left_anti")
    moved = same_keys.agg(F.count_if(F.col("own") != F.col("their")).alias("otherwise"))
    rows = by_row.agg(F.count("*").alias("keys"), F.count_if(F.col("copies") == 0).alias("equal"))
    return rows.crossJoin(moved)
