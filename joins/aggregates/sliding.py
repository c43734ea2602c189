"""Sliding windows: which of them there are, and which records change them.

Two kinds of window of length ``difference``, both ends included, are there for every record at t of a key:

- its left one, ``[t - difference, t]``, from the record on;
- its right one, ``[t + 1, t + 1 + difference]``, from when it holds a record.

Windows with the same start are one. A record gives a row for every window that contains it, and for its own right one
if that is there by it. ``window_end`` in the key is ``start + difference + 1``: excluded, as everywhere. Starts before
0 are cut to 0, with the end at ``difference``. difference = 10, count:

    a @20     (10-20) 1
    a @25     (15-25) 2, (21-31) 1                    21: right of 20, which now contains 25
    a @22     (12-22) 2, (15-25) 3, (21-31) 2, (23-33) 1

A window is looked at over all records from 1 ms before it to its end: the first of them is the one whose right window
it is. It is there from the first record that ends it, or else once one is right before it and another one in it.

Source: KIP-450, released Kafka Streams 2.7 and newer (a window is open while its end, included, is not before stream
time - grace: the rule of all windows). There the rows of one record come in another order. Held by
``tests/joins/aggregates/test_windowed_aggregate.py``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.order import up_to_here
from rivermeet.joins.stream_stream.time_buckets import lies_in, list_buckets, width

WINDOW = ("partition", "key", "window_start")


def place_in_sliding_windows(records: DataFrame) -> DataFrame:
    """Records once per window that they are in or create, with ``window_start``, ``window_end`` and ``shown``.

    ``arguments`` is NULL where the record only makes the window; ``shown``: whether it gives a row.
    """
    placed = records.where(F.col("timestamp") >= 0)
    difference, time, start = F.col("window_difference"), F.col("timestamp"), F.col("window_start")
    ended = F.greatest(time - difference, F.lit(0).cast("bigint"))
    starts = placed.select(
        "partition", "key", "window_difference", F.explode(F.array(ended, time + 1)).alias("window_start")
    ).distinct()
    # Windows that a record touches start from `time - difference` to `time + 1`.
    bucket = width(difference + 1)
    within = placed.select("*", F.explode(list_buckets(time - difference, time + 1, bucket)).alias("bucket")).join(
        starts.select("*", lies_in(start, bucket).alias("bucket")).drop("window_difference"),
        ["partition", "key", "bucket"],
    )
    touching = within.where(time.between(start - 1, start + difference))
    history = Window.partitionBy(*WINDOW).orderBy(F.col("order").asc_nulls_first(), "offset")
    upto = up_to_here(history)
    content = time >= start
    by_left = F.max(ended == start).over(upto)
    by_right = F.max(~content).over(upto) & F.max(content).over(upto)
    there = touching.select("*", (by_left | by_right).alias("there"))
    was_there = F.coalesce(F.lag("there").over(history), F.lit(False))
    return (
        there.select("*", (F.col("there") & (content | ~was_there)).alias("shown"))
        .withColumn("arguments", F.when(content, F.col("arguments")))
        .select("*", (start + difference + 1).alias("window_end"))
        .drop("bucket", "there")
    )
