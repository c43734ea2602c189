"""A small query does not wait for a large one: on the warm engine each gets cores as soon as a task has ended.

large   40 tasks, half a second each       small   begins behind it, and has ended long before
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.engine.session import close, new_session

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
