"""Times from the year 1 to the end of 9999, the usual "valid to", are read as they were written, by every reader.

Spark's own INT96    nanoseconds to Arrow: 9999-12-31 came out as 1816-03-30, and delta-rs refused the table
microseconds         what is written
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.changelog_files import part_rows
from rivermeet.infra.delta.column_ranges import ColumnRanges
from rivermeet.infra.delta.few_rows import Where, few_rows
from rivermeet.infra.delta.io import append, read
from rivermeet.infra.delta.staged import commit_staged, stage
from rivermeet.infra.engine.session import new_session
from tests.reliability import handled

TIMES = ("9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "1582-10-10 12:00:00", "1890-03-01 00:00:00")
INSTANTS = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in TIMES]
FAR = ("+12000-01-01 00:00:00", "-0044-03-15 00:00:00")


def rows(spark: SparkSession, *times: str, wall: bool = False) -> DataFrame:
    """A changelog's record for each of the times, which is its key, and stands in its value at every depth."""
    lines = ", ".join(f"({n}L, '{text}')" for n, text in enumerate(times))
    at = "CAST(t AS TIMESTAMP)"
    walls = ", 'wall', CAST(t AS TIMESTAMP_NTZ)" if wall else ""
    return spark.sql(f"""SELECT named_struct('at', {at}) AS key,
        named_struct('day', CAST(t AS DATE), 'many', array({at}), 'by', map({at}, {at}){walls}) AS value,
        1L AS timestamp, 0 AS partition, n AS offset, 1L AS epoch FROM VALUES {lines} AS v(n, t)""")


def committed(frame: DataFrame, path: str) -> None:
    staged = stage(frame, path, "epoch-1")
    assert staged is not None
    commit_staged(staged, "test", 1, CommitNote(incarnation=1, epoch=1, ends={}))


def no_session() -> Any:
    raise AssertionError("no session is needed")


def seen(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    by_offset = sorted(rows, key=lambda row: row["offset"])
    return [(r["key"]["at"], r["value"]["day"], *r["value"]["many"], *r["value"]["by"][0]) for r in by_offset]


WANTED = [(at, at.date(), at, at, at) for at in INSTANTS]


def test_an_epochs_rows_are_read_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "changelog")
    committed(rows(spark, *TIMES), path)
    assert seen(few_rows(path, [], no_session)) == WANTED
    assert seen(few_rows(path, [Where(("key", "at"), "==", INSTANTS[0])], no_session)) == WANTED[:1]
    assert seen(part_rows(no_session, path, {}, {0: 3}, 0, ["key", "value", "offset"]).to_pylist()) == WANTED
    frame = DeltaTable(path).to_pandas().sort_values("offset")
    assert [key["at"] for key in frame.key] == INSTANTS
    outcome = "stored as microseconds: Spark, delta-rs, Arrow and pandas read the instant that was written"
    handled("types", "a TIMESTAMP from the year 1 to 9999-12-31 23:59:59.999999", outcome)


def test_a_table_with_wall_clocks_and_one_that_spark_appends(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    append(rows(spark, *TIMES, wall=True), path, "test", 1, metadata="")
    frame = DeltaTable(path).to_pandas().sort_values("offset")
    assert [value["wall"] for value in frame.value] == [at.replace(tzinfo=None) for at in INSTANTS]
    assert [value["day"] for value in frame.value] == [at.date() for at in INSTANTS]
    handled("types", "a DATE or TIMESTAMP_NTZ before 1582-10-15", "the day that was written, for every reader")


def test_what_was_written_before_is_read_still(spark: SparkSession, tmp_path: Path) -> None:
    path, old = str(tmp_path / "changelog"), new_session(spark)
    old.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    committed(rows(old, *TIMES), path)
    file = next(Path(path).glob("epoch-1-*/*.parquet"))
    assert "int96" in str(pq.read_metadata(file).schema)
    assert seen(few_rows(path, [], no_session)) == WANTED
    assert sorted(row.t for row in read(spark, path).selectExpr("string(key.at) AS t").collect()) == sorted(
        text.removesuffix(".000000") for text in TIMES
    )


@pytest.mark.parametrize("time", FAR)
def test_a_year_that_python_has_not_is_no_trouble_to_an_epoch(spark: SparkSession, tmp_path: Path, time: str) -> None:
    path = str(tmp_path / "changelog")
    append(rows(spark, time), path, "test", 1, metadata="")
    assert ColumnRanges.of_changelog(path, {}, {0: 0}).bounds["offset"] == (0, 0)
