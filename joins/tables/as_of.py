"""Look-ups in time: what a key had at a place in the order, and which record was the first to reach a time.

``order`` places a record among those of the epoch; NULL is before it. A row holds from its ``order`` on, up to
``until`` (NULL: still):

    before   k a          order NULL
    update   k b          order 3
    asks     k            order 2: found a
    asks     k            order 5: found b

Held by ``tests/joins/stream_table/test_recorded.py`` and ``tests/joins/foreign_key/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochInputs
from rivermeet.joins.order import last_known, per_key, up_to_here


def row_at(
    asking: DataFrame, before: DataFrame, updates: DataFrame, name: str, inputs: EpochInputs, *within: str
) -> DataFrame:
    """Rows that ask, with the row of key ``asked`` at their ``order``.

    Parameters
    ----------
    asking
        Has ``asked`` (a key of the table, or NULL) and ``order``.
    before, updates
        The table before the epoch, with ``order`` NULL, and the epoch's updates: ``key``, ``order``, ``timestamp``,
        ``partition`` and the STRUCT ``name``, which is NULL in a tombstone.
    within
        ``partition``, if a key's row lies in the partition of the rows that ask for it: what Spark has partitioned by
        that stays where it is.

    Returns
    -------
    DataFrame
        ``asking`` with ``found`` STRUCT<name, timestamp, partition>, which may be a tombstone, or NULL; and ``exists``
        BOOLEAN, whether there is a row.
    """
    asked = inputs.broadcast(asking.select(F.col("asked").alias("key")).where("key IS NOT NULL").distinct())
    found = F.struct(name, "timestamp", "partition").alias("found")
    columns = ("key", "order", found, *within)
    rows = before.join(asked, "key", "left_semi").select(*columns).unionByName(updates.select(*columns))
    marked = asking.select("*", F.lit(True).alias("asks"))
    both = marked.unionByName(rows.withColumnRenamed("key", "asked"), allowMissingColumns=True)
    exists = F.col(f"found.{name}").isNotNull() & F.col("asked").isNotNull()
    # The last record of the table, also where it is a tombstone: `found` is never NULL for one.
    so_far = up_to_here(per_key("asked", *within).orderBy(F.col("order").asc_nulls_first()))
    return (
        both.withColumn("found", last_known("found", so_far))
        .where(F.col("asks"))
        .drop("asks")
        .select("*", F.coalesce(exists, F.lit(False)).alias("exists"))
    )


def holds_at(row: str, change: str) -> Column:
    """Whether the aliased row holds at the aliased change's place."""
    since, until, at = F.col(f"{row}.order"), F.col(f"{row}.until"), F.col(f"{change}.order")
    return (since.isNull() | (since < at)) & (until.isNull() | (at < until))


def hold_together(one: str, other: str) -> Column:
    """Whether there is a place at which both of the aliased rows hold."""
    return _starts_before_end(one, other) & _starts_before_end(other, one)


def _starts_before_end(one: str, other: str) -> Column:
    since, until = F.col(f"{one}.order"), F.col(f"{other}.until")
    return since.isNull() | until.isNull() | (since < until)


def first_to_reach(steps: DataFrame, waiting: DataFrame, *ties: str) -> DataFrame:
    """What waits for a time, with the first step that reaches it; what none reaches is left out.

    Parameters
    ----------
    steps
        ``partition``, ``time`` (ms) that the step reaches, and STRUCT ``step``.
    waiting
        ``partition``, ``time`` (ms) that it waits for, and STRUCT ``waiting``.
    ties
        Columns that make the order of equal times total.

    Returns
    -------
    DataFrame
        ``partition``, ``time``, ``step``, ``waiting``.
    """
    # From the latest time to the earliest, steps first: the step seen last is the first to reach the time.
    backwards = Window.partitionBy("partition").orderBy(F.col("time").desc(), F.col("step").isNull(), *ties)
    both = steps.unionByName(waiting, allowMissingColumns=True)
    reached = both.withColumn("step", last_known("step", up_to_here(backwards)))
    return reached.where(F.col("waiting").isNotNull() & F.col("step").isNotNull())
