"""Rows staged below a changelog are nobody's until one log entry names them, and then they are there once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta import staged
from rivermeet.infra.delta.changelog_files import records
from rivermeet.infra.delta.io import allow_removal, append, last_note
from rivermeet.infra.delta.lines import open_table, rows_in
from rivermeet.infra.delta.staged import commit_staged, discard, read_staged, stage, statistics_of
from rivermeet.infra.epochs.rows import totals

COLUMNS = "key STRUCT<k: STRING>, value STRUCT<v: STRING, at: DATE>, timestamp BIGINT, partition INT, offset BIGINT, "
COLUMNS += "epoch BIGINT"
APP = "p/n/changelog/1"


def rows(spark: SparkSession, epoch: int, *records: tuple[str, str | None, int, int]) -> Any:
    """Key, value, partition and offset; the timestamp is ten times the offset."""
    lines = [((k,), v and (v, None), 10 * offset, p, offset, epoch) for k, v, p, offset in records]
    return spark.createDataFrame(lines, COLUMNS)


def note(epoch: int, **ends: int) -> CommitNote:
    return CommitNote(incarnation=1, epoch=epoch, ends={int(p[1:]): end for p, end in ends.items()})


def committed(spark: SparkSession, path: str, epoch: int, *records: tuple[str, str | None, int, int]) -> None:
    staged = stage(rows(spark, epoch, *records), path, f"epoch-{epoch}")
    assert staged is not None
    commit_staged(staged, APP, epoch, note(epoch))


def read(spark: SparkSession, path: str) -> list[tuple[Any, ...]]:
    found = spark.read.format("delta").load(path).selectExpr("epoch", "key.k", "value.v", "partition", "offset")
    return sorted(tuple(row) for row in found.collect())


def test_a_commit_names_the_files_and_both_readers_find_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "p (1) & ü" / "n" / "changelog")
    staged = stage(rows(spark, 1, ("a", "x", 0, 0), ("b", None, 1, 0)), path, "epoch-1")
    assert staged is not None
    assert open_table(path) is None, "nothing is named yet"
    assert sorted(row.key.k for row in read_staged(staged, rows(spark, 1)).collect()) == ["a", "b"]
    commit_staged(staged, APP, 1, note(1, p0=0, p1=0))
    committed(spark, path, 2, ("c", "y", 0, 1))
    assert read(spark, path) == [(1, "a", "x", 0, 0), (1, "b", None, 1, 0), (2, "c", "y", 0, 1)]
    assert [row.key.k for row in spark.read.format("delta").load(path).where("epoch = 2").collect()] == ["c"]
    assert [row.key.k for row in records(spark, path, {0: 0}, {0: 1}).collect()] == ["c"]
    found = last_note(path)
    assert found is not None and (found[0], found[1].epoch) == (1, 2)
    table = open_table(path)
    assert table is not None and rows_in(table) == 3
    assert table.metadata().configuration["delta.appendOnly"] == "true"
    # What Spark appends goes on from there.
    append(rows(spark, 3, ("d", "z", 0, 2)), path, APP, 3, note=note(3))
    assert len(read(spark, path)) == 4


def test_rows_that_take_the_place_of_a_table_keep_their_own_shape(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "p" / "n" / "changelog")
    committed(spark, path, 1, ("a", "x", 0, 0))
    other = rows(spark, 2, ("b", "y", 0, 0)).selectExpr(
        "key", "struct(7 AS v) AS value", "partition", "offset", "epoch"
    )
    staged, table = stage(other, path, "epoch-2", own_schema=True), open_table(path)
    assert staged is not None and staged.can_be_named and table is not None
    allow_removal(spark, path, table)
    commit_staged(staged, APP, 2, note(2, p0=0), mode="overwrite")
    assert read(spark, path) == [(2, "b", 7, 0, 0)]
    assert spark.read.format("delta").load(path).columns == other.columns
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    unnamed = stage(other, path, "epoch-3", own_schema=True)
    assert unnamed is not None and not unnamed.can_be_named, "its log has other names for the columns"
    assert [row.value.v for row in read_staged(unnamed, other).collect()] == [7]
    discard(unnamed)
    assert not Path(path, unnamed.folder).exists()


def test_statistics_are_those_of_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "changelog")
    staged = stage(rows(spark, 7, ("a", "x", 2, 5), ("b", None, 3, 9)).coalesce(1), path, "epoch-7")
    assert staged is not None
    commit_staged(staged, APP, 7, note(7))
    (line,) = pa.table(DeltaTable(path).get_add_actions(flatten=True)).to_pylist()
    assert line["num_records"] == 2
    for column, low, high in (("partition", 2, 3), ("offset", 5, 9), ("timestamp", 50, 90), ("epoch", 7, 7)):
        assert (line[f"min.{column}"], line[f"max.{column}"], line[f"null_count.{column}"]) == (low, high, 0), column


def test_a_second_commit_of_an_epoch_does_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "changelog")
    committed(spark, path, 1, ("a", "x", 0, 0))
    committed(spark, path, 2, ("b", "x", 0, 1))
    for epoch in (1, 2):
        committed(spark, path, epoch, ("late", "x", 0, 9))
    assert [row[1] for row in read(spark, path)] == ["a", "b"]


@pytest.mark.parametrize("first", [1, 2], ids=["the first epoch", "a later one"])
def test_of_two_rivals_one_commits(
    spark: SparkSession, tmp_path: Path, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked before either commits: the second finds its epoch there, and its files are nobody's."""
    path = str(tmp_path / "changelog")
    for epoch in range(1, first):
        committed(spark, path, epoch, (f"k{epoch}", "x", 0, epoch))
    mine = stage(rows(spark, first, ("mine", "x", 0, first)), path, "mine")
    theirs = stage(rows(spark, first, ("theirs", "x", 0, first)), path, "theirs")
    assert mine is not None and theirs is not None
    seen = open_table(path)
    commit_staged(theirs, APP, first, note(first))
    with monkeypatch.context() as patched:
        # What it looked at before it made its entry.
        looked = iter([seen])
        patched.setattr(staged, "open_table", lambda path: next(looked))
        if seen is not None:
            patched.setattr(staged, "DeltaTable", lambda path: seen)
        commit_staged(mine, APP, first, note(first))
    assert [row[1] for row in read(spark, path) if row[0] == first] == ["theirs"]


def test_an_epoch_without_rows_is_a_commit_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "changelog")
    committed(spark, path, 1)
    dropped = stage(rows(spark, 2, ("a", "x", 0, 0)), path, "epoch-2")
    assert dropped is not None
    commit_staged(dropped, APP, 2, note(2), rows=False)
    found = last_note(path)
    assert found is not None and found[1].epoch == 2
    assert read(spark, path) == []


def test_counts_come_from_the_files(spark: SparkSession, tmp_path: Path) -> None:
    lines = [("a", "x", 0, 0), ("b", None, 0, 1), ("c", None, 1, 0), ("d", "y", 1, 1)]
    frame = rows(spark, 1, *lines).repartition(2)
    staged = stage(frame, str(tmp_path / "changelog"), "epoch-1")
    assert staged is not None and len(staged.files) == 2
    late = rows(spark, 1, ("l", "x", 0, 7))
    assert totals(staged, {"late": late}, [late]) == totals(frame, {"late": late}, [late])
    pairs = frame.selectExpr("*", "offset AS left_offset", "nullif(offset, 0) AS right_offset")
    staged = stage(pairs, str(tmp_path / "pairs"), "epoch-1")
    assert staged is not None
    found = totals(staged, {}, [])
    assert found == totals(pairs, {}, [])
    assert (found.rows, found.tombstones, found.one_sided, found.ends) == (4, 2, 2, {0: 1, 1: 1})


@pytest.mark.parametrize(
    ("why", "columns"),
    [
        ("a name that Parquet takes for syntax", "key STRUCT<`a b`: STRING>, value STRUCT<v: STRING>, offset BIGINT"),
        ("a type that needs a feature", "key STRUCT<k: STRING>, value STRUCT<v: TIMESTAMP_NTZ>, offset BIGINT"),
    ],
)
def test_a_table_that_needs_a_feature_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, why: str, columns: str
) -> None:
    assert stage(spark.createDataFrame([], columns), str(tmp_path / "changelog"), "epoch-1") is None, why


def test_rows_that_the_table_has_to_grow_for_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "changelog")
    committed(spark, path, 1, ("a", "x", 0, 0))
    assert stage(rows(spark, 2).selectExpr("*", "1 AS more"), path, "epoch-2") is None
    assert stage(rows(spark, 2).drop("timestamp").selectExpr("*", "1 AS timestamp"), path, "epoch-2") is not None


def test_vacuum_takes_what_no_commit_names(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "changelog")
    committed(spark, path, 1, ("a", "x", 0, 0))
    left = stage(rows(spark, 2, ("b", "x", 0, 1)), path, "epoch-2")
    assert left is not None and left.files
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert replace(left).files == []
    assert [row[1] for row in read(spark, path)] == ["a"]


def test_names_with_points_in_statistics(spark: SparkSession, tmp_path: Path) -> None:
    """A footer calls the column ``a.b`` like the field b of a, and readers skip files by what the log says of each."""
    schema = "key STRUCT<k: INT>, value STRUCT<a: STRUCT<b: INT>, `a.b`: INT, `c.d`: INT, e: INT>"
    for name, kind in (("field", schema), ("column", "key STRUCT<k: INT>, value STRUCT<a: INT, `a.b`: INT>")):
        path = str(tmp_path / name)
        line = (1,), (((1,), 100, 7, 8) if name == "field" else (1, 100))
        staged = stage(spark.createDataFrame([line], kind), path, "epoch-1")
        assert staged is not None
        commit_staged(staged, APP, 1, note(1, p0=0))
        rows = spark.read.format("delta").load(path)
        assert rows.where("value.a.b = 1" if name == "field" else "value.a = 1").count() == 1
        assert rows.where("value.`a.b` = 100").count() == 1
        (file,) = staged.files
        found = statistics_of(staged, file)
        assert found is not None
        known = {"c.d": 7, "e": 8} if name == "field" else {"a": 1, "a.b": 100}
        assert found["minValues"] == {"key": {"k": 1}, "value": known}, name
