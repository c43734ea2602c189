"""A table's version is opened once in a session, and never taken for that of another table in its place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rivermeet.infra.delta import io
from rivermeet.infra.delta.io import FOLDED, append, read
from rivermeet.pipelines import limits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(autouse=True)
def nothing_held(spark: SparkSession) -> Iterator[None]:
    io._views.pop(spark, None)
    yield


def write(spark: SparkSession, path: str, *numbers: int) -> None:
    """A commit a number."""
    for number in numbers:
        append(spark.sql(f"SELECT {number} AS n"), path, "test", number, metadata="", properties=FOLDED)


def numbers(frame: DataFrame) -> list[int]:
    return [row.n for row in frame.orderBy("n").collect()]


def held(spark: SparkSession) -> list[str]:
    return [table.name for table in spark.catalog.listTables() if table.name.startswith("pinned_")]


@pytest.mark.prove
def test_each_version_keeps_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    write(spark, str(tmp_path), 0, 1)
    newest = read(spark, str(tmp_path), 1)
    write(spark, str(tmp_path), 2)
    assert numbers(newest) == numbers(read(spark, str(tmp_path), 1)) == [0, 1]
    assert numbers(read(spark, str(tmp_path), 0)) == [0]
    assert numbers(read(spark, str(tmp_path))) == [0, 1, 2]


def test_a_version_is_opened_once_and_once_more_when_it_is_not_the_newest(spark: SparkSession, tmp_path: Path) -> None:
    write(spark, str(tmp_path), 0)
    newest = read(spark, str(tmp_path), 0)
    assert read(spark, str(tmp_path), 0) is newest
    write(spark, str(tmp_path), 1)
    older = read(spark, str(tmp_path), 0)
    assert older is not newest and read(spark, str(tmp_path), 0) is older


def test_a_table_in_the_place_of_another_is_opened_again(spark: SparkSession, tmp_path: Path) -> None:
    write(spark, str(tmp_path / "t"), 0, 1)
    write(spark, str(tmp_path / "u"), 5, 6)
    assert numbers(read(spark, str(tmp_path / "t"), 0)) == [0]
    shutil.rmtree(tmp_path / "t")
    (tmp_path / "u").rename(tmp_path / "t")
    assert numbers(read(spark, str(tmp_path / "t"), 0)) == [5]


def test_what_was_not_asked_for_longest_is_let_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OPEN_VERSIONS", 2)
    before = len(held(spark))
    write(spark, str(tmp_path), 0, 1, 2)
    first = read(spark, str(tmp_path), 0)
    read(spark, str(tmp_path), 1)
    assert read(spark, str(tmp_path), 0) is first
    read(spark, str(tmp_path), 2)
    assert len(held(spark)) - before == 2
    assert read(spark, str(tmp_path), 0) is first, "version 1 went"
