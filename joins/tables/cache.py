"""The record cache of a result: one row per key and commit, its net change.

A key's last row of a commit is emitted, with its timestamp and trigger, in the order of the keys' last rows. A
tombstone is emitted only where the key had a row before the commit:

    (k, 1), (q, 2), (k, 3), commit      (q, 2), (k, 3)
    (k, null), commit                   (k, null)
    (r, 1), (r, null), commit           nothing: r was absent before and is absent after

Source: wiki page "Kafka Streams Join Semantics" (caching), KIP-63. Held by
``tests/joins/table_table/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def net_changes(rows: DataFrame, there: DataFrame) -> DataFrame:
    """Of each key and commit the last row, if it changes anything.

    Parameters
    ----------
    rows
        Has ``key``, ``commit``, ``live`` (false: a tombstone) and ``sequence``, in which the rows of a commit follow
        one another.
    there
        Distinct values of ``key`` that had a row before the epoch.
    """
    per_key = Window.partitionBy("key").orderBy("sequence")
    last = rows.select("*", F.lead("commit").over(per_key).alias("__next")).where("__next IS NULL OR __next > commit")
    marked = last.select("*", F.lag("live").over(per_key).alias("__was")).join(
        there.select("key", F.lit(True).alias("__there")), "key", "left"
    )
    return marked.where("live OR coalesce(__was, __there, false)").drop("__next", "__was", "__there")


def select_emitted_before(emitted: DataFrame | None, rows: DataFrame) -> DataFrame:
    """Keys of ``rows`` that have a row by the operation's own earlier ones (``emitted``)."""
    keys = rows.select("key").distinct()
    if emitted is None:
        return keys.where("false")
    mine = emitted.join(keys, "key", "left_semi")
    # A key may begin again in another partition, at a lower offset: test_a_key_that_begins_again_in_another_partition.
    last = mine.groupBy("key").agg(F.max_by(F.col("value").isNotNull(), F.struct("epoch", "offset")).alias("live"))
    return last.where("live").select("key")
