"""Part of a changelog is the same whether its files are chosen here or by Delta, and no other file is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rivermeet.infra.delta.changelog_files import between_sql, earlier_epochs, epoch_files, records
from rivermeet.infra.delta.io import append, read
from rivermeet.infra.delta.plain_files import read_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KIND = "key STRUCT<k: STRING>, value STRUCT<n: INT>, timestamp BIGINT, partition INT, offset BIGINT, epoch BIGINT"
EPOCHS = {
    1: [("a", 1, 0, 0), ("b", 2, 0, 1), ("c", 3, 1, 0)],
    2: [("a", 4, 0, 2), ("c", 5, 1, 1)],
    3: [],
    4: [("b", 6, 0, 3)],
}
SLICES: list[tuple[dict[int, int], dict[int, int]]] = [
    ({}, {0: 3, 1: 1}),
    ({0: 1, 1: 0}, {0: 3, 1: 1}),
    ({0: 2}, {0: 3}),
    ({}, {1: 0}),
    ({0: 3, 1: 1}, {0: 3, 1: 1}),
    ({}, {p: 1 for p in range(30)}),
]


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    wanted = frame.selectExpr("partition", "offset", "key.k", "to_json(value) AS value", "timestamp", "epoch")
    return sorted(tuple(row) for row in wanted.collect())


def write(spark: SparkSession, path: str, kind: str = KIND, **options: str) -> None:
    """Each epoch in a commit, and so in a file, of its own."""
    for epoch, rows in EPOCHS.items():
        key = () if kind == KIND else ("x",)
        lines = [((k, *key), (n,), 1000 * n, p, offset, epoch) for k, n, p, offset in rows]
        append(spark.createDataFrame(lines, kind).coalesce(1), path, "test", epoch, metadata="", properties=options)


def files_of(frame: DataFrame) -> int:
    return len(frame.inputFiles())


@pytest.fixture(
    scope="module", params=[KIND, KIND.replace("k: STRING", "k: STRING, `odd, name`: STRING")], ids=["plain", "mapped"]
)
def changelog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """A list of files, and one whose names are mapped, which Delta has to read."""
    path = str(tmp_path_factory.mktemp("changelog") / "t")
    write(spark, path, request.param)
    return path


@pytest.mark.parametrize(("after", "upto"), SLICES)
def test_the_same_records_as_delta(
    spark: SparkSession, changelog: str, after: dict[int, int], upto: dict[int, int]
) -> None:
    expected = read(spark, changelog).where(between_sql(after, upto))
    assert rows_of(records(spark, changelog, after, upto)) == rows_of(expected)


def epoch_rows(spark: SparkSession, path: str, epoch: int) -> DataFrame:
    rows = read_files(spark, path, None, lambda files: epoch_files(files, epoch))
    assert rows is not None
    return rows.where(f"epoch = {epoch}")


def test_only_files_that_may_have_them_are_read(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write(spark, path)
    assert files_of(records(spark, path, {0: 2}, {0: 3})) == 1
    assert files_of(records(spark, path, {0: 1, 1: 1}, {0: 3, 1: 1})) == 2
    assert files_of(epoch_rows(spark, path, 2)) == 1
    assert [row[-1] for row in rows_of(epoch_rows(spark, path, 2))] == [2, 2]
    assert [row[-1] for row in rows_of(earlier_epochs(spark, path, 2))] == [1, 1, 1]
    assert rows_of(epoch_rows(spark, path, 3)) == []
    # Version 1 has epochs 1 and 2.
    assert rows_of(records(spark, path, {}, {0: 3}, version=1)) == rows_of(records(spark, path, {}, {0: 2}))


@pytest.mark.prove
def test_files_without_statistics_are_read(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write(spark, path, **{"delta.dataSkippingNumIndexedCols": "0"})
    assert [row[:2] for row in rows_of(records(spark, path, {0: 2}, {0: 3}))] == [(0, 3)]


def test_records_of_before_a_column_have_none(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write(spark, path)
    grown = KIND.replace("n: INT", "n: INT, s: STRING")
    later = [(("d",), (7, "new"), 7000, 0, 4, 5)]
    append(spark.createDataFrame(later, grown), path, "test", 5, metadata="")
    found = records(spark, path, {0: 2}, {0: 4}).selectExpr("offset", "value.s").collect()
    assert sorted(tuple(row) for row in found) == [(3, None), (4, "new")]


@pytest.mark.prove
@pytest.mark.parametrize("folder", ["a [b] *", "50%", "x'; DROP"])
def test_folders_of_any_name(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    path = str(tmp_path / folder / "t")
    write(spark, path)
    assert len(rows_of(records(spark, path, {}, {0: 3, 1: 1}))) == 6
