"""Two records within reach of each other share exactly one bucket, and those far apart none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from rivermeet.joins.stream_stream.time_buckets import REACHES, lies_in, list_buckets, width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, LAST = -30, 90
HUGE = 2**62


@pytest.mark.parametrize(
    ("before", "after"), [(0, 0), (0, 1), (4, 6), (10, 10), (-3, 8), (7, -7), (20, 0), (HUGE, HUGE - 1)]
)
def test_every_pair_meets_once(spark: SparkSession, before: int, after: int) -> None:
    times = spark.range(FIRST, LAST).withColumns(
        {"before": F.lit(before).cast("bigint"), "after": F.lit(after).cast("bigint")}
    )
    bucket = width(F.col("before") + F.col("after"))
    left = times.select(
        F.col("id").alias("l"),
        F.explode(list_buckets(F.col("id") - before, F.col("id") + after, bucket)).alias("bucket"),
    )
    right = times.select(F.col("id").alias("r"), lies_in(F.col("id"), bucket).alias("bucket"))
    met = left.join(right, "bucket").groupBy("l", "r").count()
    found = {(line["l"], line["r"]): line["count"] for line in met.collect()}
    assert set(found.values()) == {1}
    every = range(FIRST, LAST)
    wanted = {(one, other) for one in every for other in every if one - before <= other <= one + after}
    assert wanted <= set(found)
    reach = max(before + after, 1)
    assert all(abs(other - one) <= (REACHES + 1) * reach + abs(before) for one, other in found)
