"""What a killed run has cached is not what the next one reads."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from rivermeet.infra.engine.fit import fit_compilation, fit_shuffles, hash_number, shuffle_partitions
from rivermeet.infra.engine.session import new_session
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.pipelines import limits
from tests.infra.epochs.test_requests import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def joined(spark: SparkSession, rows: int) -> DataFrame:
    """Ten rows beside a broadcast of three that take long to compute."""
    sums = spark.range(0, rows, 1, 2).groupBy((f.col("id") % 3).alias("k")).agg(f.sum(f.hash("id")).alias("s"))
    return spark.range(10).join(f.broadcast(sums), f.col("id") == f.col("k"), "left")


@pytest.mark.prove
@pytest.mark.parametrize("records", [10, None])
def test_a_broadcast_that_was_cancelled_is_made_again(spark: SparkSession, records: int | None) -> None:
    rows, failures = 300_000_000, []
    killed, after = new_session(spark), spark
    for session in (killed, after):
        # Whatever the last test has left: interpreted, they take minutes.
        fit_compilation(session, rows)

    def run() -> None:
        with pytest.raises(PySparkException) as failure:
            SharedFrames("killed", records).keep(joined(killed, rows)).count()
        failures.append(str(failure.value))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(1)
    while thread.is_alive():
        killed.interruptAll()
        time.sleep(0.1)
    assert "OPERATION_CANCELED" in failures[0]

    shared = SharedFrames("after", records)
    assert shared.keep(joined(after, rows)).count() == 10
    shared.release()


@pytest.mark.parametrize("other", [False, True])
def test_a_frame_of_a_small_epoch_costs_one_request_in_any_session(spark: SparkSession, other: bool) -> None:
    session = new_session(spark) if other else spark
    active = type(spark).active()
    with SharedFrames("one", 10) as shared:
        with counted() as asked:
            kept = shared.keep(session.range(10))
        assert asked == {"_execute_and_fetch_as_iterator": 1}
        assert kept.sparkSession is session and kept.count() == 10
        assert type(spark).active() is active


def test_a_frame_is_kept_after_an_engine_was_lost(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sessions are closed, and Connect puts none in their place: neither as the thread's nor as the process's."""
    lost = new_session(spark)
    lost.client.close()  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr(type(spark), "_default_session", lost)
    monkeypatch.setattr(type(spark)._active_session, "session", lost)  # pyright: ignore[reportAttributeAccessIssue]
    with SharedFrames("lost", 10) as shared:
        assert shared.keep(spark.range(10)).count() == 10


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("records", [10, None])
def test_a_kept_frame_is_computed_once(spark: SparkSession, records: int | None, other: bool) -> None:
    session = new_session(spark) if other else spark
    shared = SharedFrames("once", records)
    kept = shared.keep(session.range(10).select(f.expr("uuid()").alias("made")))
    twice = [{row.made for row in kept.collect()} for _ in range(2)]
    assert twice[0] == twice[1] and len(twice[0]) == 10
    assert {row.made for row in kept.where("length(made) > 0").collect()} == twice[0]
    shared.release()


def test_of_a_large_epoch_what_is_cheap_is_made_again(spark: SparkSession) -> None:
    frame = spark.range(10).select(f.expr("uuid()").alias("made"))
    with SharedFrames("few", limits.KEPT_RECORDS) as few, SharedFrames("many", limits.KEPT_RECORDS + 1) as many:
        kept = few.keep_if_few(frame)
        assert kept.collect() == kept.collect()
        assert many.keep_if_few(frame) is frame
        assert many.keep(frame) is not frame


@pytest.mark.parametrize(("more", "kept_as"), [(0, "ExistingRDD"), (1, "InMemoryTableScan")])
def test_frames_of_too_many_records_are_kept_by_column(spark: SparkSession, more: int, kept_as: str) -> None:
    with SharedFrames("million", limits.CHECKPOINTED_RECORDS + more) as shared:
        shared.keep(spark.range(10)).createOrReplaceTempView("kept_frame")
        assert kept_as in spark.sql("EXPLAIN SELECT * FROM kept_frame").collect()[0].plan


def test_in_a_tiny_epoch_a_frame_of_few_steps_is_made_where_it_is_used(spark: SparkSession) -> None:
    frame, records = spark.range(10), limits.RECOMPUTED_RECORDS
    with SharedFrames("tiny", records) as tiny, SharedFrames("few", records + 1) as few, SharedFrames("any") as any_:
        assert tiny.keep_if_many(frame) is frame
        assert few.keep_if_many(frame) is not frame
        assert any_.keep_if_many(frame) is not frame


def test_shuffles_fit_the_records(spark: SparkSession) -> None:
    assert [shuffle_partitions(records, 2, 1) for records in (10, 20_000, 1_000_000)] == [1, 2, 4]
    fit_shuffles(spark, 10, 4)
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"


@pytest.mark.parametrize(
    ("records", "partitions", "number", "of_partitions"),
    [
        (20_000, 4, 2, [1, 3]),  # a small epoch does not ask
        (1_000_000, 4, 5, [0, 2, 0, 1, 1]),  # of 4: [0, 0, 1, 3]
        (1_300_000, 4, 7, [0, 1, 1, 0, 1, 1, 0]),  # of 6: [1, 1, 0, 2, 0, 0], and a core has three
        (1_000_000, 12, 5, [0, 3, 3, 3, 3]),  # of 4: [0, 2, 4, 6]
    ],
)
def test_a_large_shuffle_spreads_the_partitions_over_the_cores(
    spark: SparkSession, records: int, partitions: int, number: int, of_partitions: list[int]
) -> None:
    assert shuffle_partitions(records, 2, partitions) == number
    by_spark = spark.range(partitions).select(f.expr("hash(CAST(id AS INT))").alias("hash"), "id").collect()
    assert {row.id: row.hash for row in by_spark} == {one: hash_number(one) for one in range(partitions)}
    assert [sum(row.hash % number == task for row in by_spark) for task in range(number)] == of_partitions
