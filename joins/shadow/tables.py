"""Joins of tables: which records the application's last row of a key came from, and which are current.

The last row of a key is a function of the last record of each side, whatever order they came in. So each difference is
a loss, and what it was made of shows whose answer is missing. All versions of a key's left record are joined with all
versions of its right one, as the operator joins them; the newest pair that gives the application's value is it.

    left   o1 {fk c, n 1}, o1 {fk c, n 2}        right  c {eur 5}, c null          ours: no row
    theirs o1 {n 1, eur 5}                       from o1's first record and c's first: stale_foreign_key

| cause | rule, the first that holds |
|---|---|
| unread | the record that triggers our last row was not read by the application |
| lost_row | ours has a row, the application none |
| unknown_value | no version of left and right gives the application's value |
| stale_right, or the family's own | its right record was replaced; the left row is current and points there |
| stale_left | the left row was deleted, or points elsewhere, or is all that was replaced |

Held by ``tests/joins/shadow/test_tables.py`` and ``tests/assets/shadow/test_tables.py``, and with a real application by
``tests/assets/shadow/test_real_application.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.shadow.answers import RECORD, UNREAD, Answers, Compared
from rivermeet.joins.shadow.folded import count_totals, fold_answers, name_kind
from rivermeet.joins.values import join_values, key_type, with_mapped_key, with_record
from rivermeet.pipelines import ForeignKeyJoin, TableTableJoin

TableJoin = TableTableJoin | ForeignKeyJoin


def compare_tables(
    join: TableJoin, answers: Answers, foreign_key: Mapping[str, str] | None, stale_right: str
) -> Compared:
    """Compare the tables that both answers fold to.

    Parameters
    ----------
    foreign_key
        Right key column to an expression over the left record; None where both tables share the key.
    stale_right
        Cause of a row that joins a replaced right row, and whose left row is current.
    """
    by_key = answers.keep(fold_answers(answers))
    bad = answers.keep(by_key.where(~F.col("equal")).drop("equal", "otherwise"))
    lefts, rights = _versions(join, answers, bad, foreign_key)
    found = bad.join(_find_parts(join, bad, lefts, rights), "key", "left")
    found = found.join(lefts.where("last").select("key", F.col("record").alias("left"), "fk"), "key", "left")
    # Both tables of a join by the key share it; a row that is gone points to what the application's row points to.
    points = F.col("key") if foreign_key is None else F.coalesce("fk", "joined.fk")
    rights_now = rights.where("last").select(F.col("key").alias("points"), F.col("record").alias("right"))
    found = found.withColumn("points", points).join(rights_now, "points", "left")
    differences = found.withColumns(
        {
            "kind": name_kind(F.col("joined").isNotNull()),
            "cause": _cause(join, answers, stale_right),
            "copies": F.lit(1).cast("bigint"),
            "joined_left": F.col("joined.left_record"),
            "joined_right": F.col("joined.right_record"),
        }
    )
    return Compared(differences, count_totals(by_key))


def _cause(join: TableJoin, answers: Answers, stale_right: str) -> Column:
    right_is_live, joined = F.col("right.value").isNotNull(), F.col("joined.right_record")
    replaced = F.when(joined.isNull(), right_is_live).otherwise(~joined["offset"].eqNullSafe(F.col("right.offset")))
    points_there = F.col("left.value").isNotNull() & F.col("points").eqNullSafe(F.col("joined.fk"))
    if join.how == "outer":
        points_there = points_there | F.col("joined.left_record").isNull()
    return (
        F.when(answers.is_unread(), UNREAD)
        .when(F.col("theirs.value").isNull(), "lost_row")
        .when(F.col("joined").isNull(), "unknown_value")
        .when(points_there & replaced, stale_right)
        .otherwise("stale_left")
    )


def _versions(
    join: TableJoin, answers: Answers, bad: DataFrame, foreign_key: Mapping[str, str] | None
) -> tuple[DataFrame, DataFrame]:
    """Both sides' records of the differing keys: ``key``, the side's STRUCT, ``record``, ``last``; left: ``fk``."""
    assert answers.left is not None and answers.right is not None
    keys = bad.select("key").distinct()
    lefts = with_record(_of_keys(answers.left, keys, join.left.history), "left")
    if foreign_key is not None:
        lefts = with_mapped_key(lefts, "left", foreign_key, key_type(answers.right), "fk")
        lefts = lefts.withColumn("fk", F.when(F.col("left").isNotNull(), F.col("fk")))
        keys = lefts.where(F.col("fk").isNotNull()).select(F.col("fk").alias("key")).distinct()
    else:
        lefts = lefts.withColumn("fk", F.col("key"))
    lefts = answers.keep(lefts.select("key", "left", "record", "last", "fk"))
    rights = with_record(_of_keys(answers.right, keys, join.right.history), "right")
    return lefts, answers.keep(rights.select("key", "right", "record", "last"))


def _of_keys(records: DataFrame, keys: DataFrame, versioned: int | None) -> DataFrame:
    """Records of some keys; of a versioned table the last is the latest by time."""
    newest = [F.desc("offset")] if versioned is None else [F.desc("timestamp"), F.desc("offset")]
    found = records.join(keys, "key", "left_semi")
    return found.withColumns(
        {
            "record": F.struct(*RECORD),
            "last": F.row_number().over(Window.partitionBy("key").orderBy(*newest)) == 1,
        }
    )


def _find_parts(join: TableJoin, bad: DataFrame, lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """By key ``joined``: the newest left and right record whose join is the application's row."""
    left = lefts.where(F.col("left").isNotNull()).select("key", "left", F.col("record").alias("left_record"), "fk")
    right = rights.where(F.col("right").isNotNull())
    right = right.select(F.col("key").alias("fk"), "right", F.col("record").alias("right_record"))
    made = left.join(right, "fk")
    if join.how in ("left", "outer"):
        made = made.unionByName(left, allowMissingColumns=True)
    if join.how == "outer":
        made = made.unionByName(right.withColumn("key", F.col("fk")), allowMissingColumns=True)
    wanted = bad.where(F.col("theirs.value").isNotNull()).select("key", F.col("theirs.value").alias("wanted"))
    same = made.withColumn("value", join_values(join.select)).join(wanted, "key")
    newest = F.struct(*(F.coalesce(f"{side}_record.offset", F.lit(-1)).alias(side) for side in ("left", "right")))
    pair = F.struct("left_record", "right_record", "fk")
    found = same.where(F.col("value").eqNullSafe(F.col("wanted")))
    return found.groupBy("key").agg(F.max_by(pair, newest).alias("joined"))
