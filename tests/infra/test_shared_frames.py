"""What a killed run has cached is not what the next one reads."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from infra.session import new_session
from infra.shared_frames import SharedFrames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def joined(spark: SparkSession, rows: int) -> DataFrame:
    """Ten rows beside a broadcast of three that take long to compute."""
    sums = spark.range(0, rows, 1, 2).groupBy((f.col("id") % 3).alias("k")).agg(f.sum(f.hash("id")).alias("s"))
    return spark.range(10).join(f.broadcast(sums), f.col("id") == f.col("k"), "left")


def test_a_broadcast_that_was_cancelled_is_made_again(spark: SparkSession) -> None:
    rows, failures = 1_000_000_000, []
    killed, after = new_session(spark), new_session(spark)

    def run() -> None:
        with pytest.raises(PySparkException) as failure:
            SharedFrames("killed").keep(joined(killed, rows)).count()
        failures.append(str(failure.value))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(1)
    while thread.is_alive():
        killed.interruptAll()
        time.sleep(0.1)
    assert "OPERATION_CANCELED" in failures[0]

    shared = SharedFrames("after")
    assert shared.keep(joined(after, rows)).count() == 10
    shared.release()
