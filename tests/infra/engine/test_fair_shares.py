"""A small query does not wait for a large one, and no task of a query for another one of the same query.

large   40 tasks, half a second each       small   begins behind it, and has ended long before
kept    8 partitions, a second each        joined with itself on two cores: four seconds, as no partition is waited for
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.engine.session import close, new_session
from rivermeet.infra.engine.shared_frames import SharedFrames

TASKS = 40


def seconds(spark: SparkSession, rows: int, tasks: int) -> float:
    """What a query of so many tasks takes."""
    began = time.monotonic()
    spark.range(0, rows, 1, tasks).select(F.max(F.sha2(F.col("id").cast("string"), 512))).collect()
    return time.monotonic() - began


def in_a_session_of_its_own(spark: SparkSession, rows: int, tasks: int) -> float:
    """The same, as another run's: in this thread, whose active session it becomes."""
    other = new_session(spark)
    try:
        return seconds(other, rows, tasks)
    finally:
        close(other)


def test_a_small_query_beside_a_large_one(spark: SparkSession) -> None:
    seconds(spark, 200_000, 1)
    a_task = seconds(spark, 200_000, 1)
    with ThreadPoolExecutor(1) as beside:
        rows = int(200_000 * 0.5 / a_task)
        large = beside.submit(in_a_session_of_its_own, spark, rows * TASKS, TASKS)
        time.sleep(1)
        small = seconds(spark, 1_000, 1)
        assert not large.done()
        took = large.result()
    assert small < took / 2, (small, took)


def seconds_of_a_kept_frame(spark: SparkSession, tasks: int) -> float:
    """What its join with itself takes, if each of its partitions takes a second."""
    second = F.expr("reflect('java.lang.Thread', 'sleep', id * 0 + 1000)")
    with SharedFrames(f"fair_{tasks}") as shared:
        kept = shared.keep(spark.range(0, tasks, 1, tasks).select("id", second.alias("slept")))
        # Were the two sides equal, Spark would compute one of them.
        joined = kept.where("id < 8").hint("merge").join(kept.where("id < 9").select("id"), "id")
        began = time.monotonic()
        assert joined.count() == tasks
        return time.monotonic() - began


@pytest.mark.skipif(os.cpu_count() == 1, reason="one core runs one task after the other")
def test_two_sides_of_a_join_do_not_wait_for_one_kept_frame(spark: SparkSession) -> None:
    seconds_of_a_kept_frame(spark, 1)
    took = seconds_of_a_kept_frame(spark, 8)
    assert took < 7, took
