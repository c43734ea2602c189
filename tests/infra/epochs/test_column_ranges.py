"""Ranges by statistics hold all values of the records that they are of, and are unknown rather than wrong."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from rivermeet.infra.delta.io import append
from rivermeet.infra.delta.staged import commit_staged, stage
from rivermeet.infra.epochs import column_ranges
from rivermeet.infra.epochs.column_ranges import ColumnRanges, all_of_ranges, any_of_ranges
from rivermeet.infra.epochs.plan import CommitNote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KIND = (
    "key STRUCT<id: BIGINT, name: STRING, day: DATE>, value STRUCT<n: INT, ref: BIGINT>, timestamp BIGINT, "
    "partition INT, offset BIGINT, epoch BIGINT"
)
EPOCHS: list[list[tuple[Any, ...]]] = [
    [((5, "a", date(2024, 1, 1)), (1, None), 1, 0, 0, 1), (None, (-2, None), 2, 0, 1, 1)],
    [((9, "b", date(2024, 1, 2)), None, 3, 0, 2, 2), ((7, "b", None), None, 4, 1, 0, 2)],
    [((-3, "c", None), (4, 8), 5, 1, 1, 3)],
]
SLICES = [
    #  after, upto, id, n, ref
    # By its statistics the second file may have offset 1 of partition 0.
    ({}, {0: 1}, (5, 9), (-2, 1), None),
    ({0: 1}, {0: 2, 1: 0}, (7, 9), None, None),
    ({0: 1}, {0: 2, 1: 1}, (-3, 9), (4, 4), (8, 8)),
    ({}, {0: 2, 1: 1}, (-3, 9), (-2, 4), (8, 8)),
]


@pytest.fixture(scope="module", params=["staged", "by Spark"])
def changelog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """Statistics of the files' footers, and those that Delta writes."""
    path = str(tmp_path_factory.mktemp("ranges") / "changelog")
    for epoch, rows in enumerate(EPOCHS, 1):
        frame = spark.createDataFrame(rows, KIND)
        if request.param == "staged":
            staged = stage(frame.coalesce(1), path, f"epoch-{epoch}")
            assert staged is not None
            commit_staged(staged, "test", epoch, CommitNote(incarnation=1, epoch=epoch, ends={}))
        else:
            append(frame.coalesce(1), path, "test", epoch, metadata="")
    return path


@pytest.mark.parametrize(("after", "upto", "ids", "numbers", "refs"), SLICES)
def test_ranges_of_a_slice(
    changelog: str,
    after: dict[int, int],
    upto: dict[int, int],
    ids: tuple[int, int],
    numbers: tuple[int, int] | None,
    refs: tuple[int, int] | None,
) -> None:
    found = ColumnRanges.of_changelog(changelog, after, upto)
    assert found.bounds["key.id"] == ids
    assert found.bounds["value.n"] == numbers
    assert found.bounds["value.ref"] == refs
    assert not {"key.name", "key.day"} & {name for name, bounds in found.bounds.items() if bounds is not None}


def test_no_records_are_equal_to_nothing(changelog: str) -> None:
    found = ColumnRanges.of_changelog(changelog, {0: 2, 1: 1}, {0: 2, 1: 1})
    assert found.is_empty
    assert found.sql("key.id", ["key", "id"]) == "false"


def test_sql(changelog: str) -> None:
    found = ColumnRanges.of_changelog(changelog, {0: 1}, {0: 2})
    assert found.sql("key.id", ["key", "i`d"]) == "`key`.`i``d` BETWEEN 7L AND 9L"
    assert found.sql("value.n", ["key", "id"]) == "`key`.`id` IS NULL", "no record has a value"
    assert found.sql("key.name", ["key", "name"]) is None
    assert found.sql("key.nobody", ["key", "id"]) is None
    assert found.sql_of_key(["name", "id"]) == "(`id` BETWEEN 7L AND 9L)"
    assert found.sql_of_key(["name"]) is None


def test_a_null_is_equal_to_a_null(changelog: str) -> None:
    found = ColumnRanges.of_changelog(changelog, {}, {0: 2})
    assert found.lacking == {"key.id", "value.n", "value.ref"}
    assert found.sql("key.id", ["id"]) == "`id` BETWEEN 5L AND 9L OR `id` IS NULL"


def test_a_column_whose_files_lack_statistics_is_unknown(changelog: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = column_ranges.files_with
    monkeypatch.setattr(column_ranges, "files_with", lambda *a: given(*a).drop_columns(["min.key.id"]))
    assert "key.id" not in ColumnRanges.of_changelog(changelog, {}, {0: 2}).bounds


def test_conditions_together() -> None:
    assert all_of_ranges(["a", None, "b"]) == "(a) AND (b)"
    assert all_of_ranges([None]) is None
    assert any_of_ranges(["a", "b"]) == "(a) OR (b)"
    assert any_of_ranges(["a", None]) is None, "by the other way any row may be needed"
    assert any_of_ranges([]) == "false"
