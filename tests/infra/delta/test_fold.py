"""A table is the last records of its changelog, whether it is written whole or merged into."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta import fold as folding
from rivermeet.infra.delta.fold import fold
from rivermeet.infra.delta.io import FOLDED, append
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table, rows_in
from rivermeet.infra.delta.staged import commit_staged, stage
from rivermeet.infra.engine.session import new_session
from rivermeet.pipelines import limits
from rivermeet.records.changelog import last_per_key, table_rows

COLUMNS = "key STRUCT<k: STRING>, value STRUCT<v: STRING>, timestamp BIGINT, partition INT, offset BIGINT, epoch BIGINT"
EPOCHS = [
    #  records (key, value)               the table after them
    ([("a", "1"), ("b", "1")], {"a": "1", "b": "1"}),
    ([("a", "2"), ("c", "1"), ("c", None)], {"a": "2", "b": "1"}),
    ([("b", None), ("d", "1")], {"a": "2", "d": "1"}),
    ([("a", None), ("d", None)], {}),
    ([("a", "3"), ("e", None)], {"a": "3"}),
]


class Folded:
    """A changelog with a record a line, and its table."""

    columns = COLUMNS

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.other = spark, new_session(spark)
        self.paths = NodeTables(str(root), "p", "n")
        self.end, self.epoch = -1, 0

    def commits(self, records: Sequence[tuple[Any, str | None]]) -> CommitNote:
        self.epoch += 1
        lines = [((k,), v and (v,), 10 * o, 0, o, self.epoch) for o, (k, v) in enumerate(records, self.end + 1)]
        self.end += len(records)
        note = CommitNote(incarnation=1, epoch=self.epoch, ends={0: self.end})
        staged = stage(self.spark.createDataFrame(lines, self.columns), self.paths.changelog, f"epoch-{self.epoch}")
        assert staged is not None
        commit_staged(staged, "changelog", self.epoch, note)
        self.last = note
        return note

    def folds(self, upto: CommitNote) -> bool:
        return fold(lambda: self.other, self.paths, ["k"], upto)

    @property
    def rows(self) -> dict[Any, str]:
        """As any reader of Delta finds them."""
        return {row.k: row.v for row in self.spark.read.format("delta").load(self.paths.table).collect()}

    @property
    def is_merged(self) -> bool:
        table = open_table(self.paths.table)
        assert table is not None
        return any(commit["operation"] == "MERGE" for commit in table.history())


@pytest.mark.parametrize("few", [20_000, *(pytest.param(few, marks=pytest.mark.prove) for few in (3, 0))])
def test_each_epoch_or_all_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(limits, "WHOLE_TABLE_ROWS", few)
    monkeypatch.setattr(limits, "WHOLE_TABLE_SHARE", 10)
    each, once = Folded(spark, tmp_path / "each"), Folded(spark, tmp_path / "once")
    last: Any = None
    for records, expected in EPOCHS:
        last = once.commits(records)
        assert each.folds(each.commits(records))
        assert each.rows == expected
        assert not each.folds(last), "it is not behind"
    assert once.folds(last)
    assert once.rows == EPOCHS[-1][1]
    assert each.is_merged == (few < 20_000)
    table = open_table(each.paths.table)
    assert table is not None and rows_in(table) == 1
    assert (table.protocol().min_reader_version == 1) == (few == 20_000), "deletion vectors come with the first MERGE"


@pytest.mark.parametrize(
    ("records", "room", "is_merged"),
    [
        (3, 1_000_000, False),  # more than a tenth of twenty rows
        (1, 1_000_000, True),
        (3, 200, True),  # the driver has no room for twenty rows, and has read some when it sees that
    ],
)
def test_a_table_is_written_whole_for_a_tenth_of_its_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int, room: int, is_merged: bool
) -> None:
    monkeypatch.setattr(limits, "WHOLE_TABLE_ROWS", 0)
    own = Folded(spark, tmp_path)
    assert own.folds(own.commits([(f"k{n}", "1") for n in range(20)]))
    monkeypatch.setattr(limits, "DRIVER_FOLD_MEMORY", room)
    assert own.folds(own.commits([(f"k{n}", "2") for n in range(records)]))
    assert own.is_merged == is_merged
    assert own.rows == {f"k{n}": "2" if n < records else "1" for n in range(20)}


def test_a_table_of_an_older_version_is_merged_into(spark: SparkSession, tmp_path: Path) -> None:
    """It has deletion vectors however few its rows are."""
    own = Folded(spark, tmp_path)
    first = own.commits([("a", "1"), ("b", "1")])
    rows = table_rows(spark.read.format("delta").load(own.paths.changelog)).drop("_deleted")
    append(rows, own.paths.table, own.paths.app_id("fold", 1), 1, note=first, properties=FOLDED)
    assert not own.folds(first)
    assert own.folds(own.commits([("a", None)]))
    assert own.is_merged and own.rows == {"b": "1"}


def test_a_table_written_whole_leaves_no_file_but_its_own(spark: SparkSession, tmp_path: Path) -> None:
    own = Folded(spark, tmp_path)
    for records, _ in EPOCHS[:3]:
        own.folds(own.commits(records))
    table = open_table(own.paths.table)
    assert table is not None
    assert len(table.file_uris()) == 1 and not own.is_merged
    assert table.version() == 2, "a commit each"


class Numbered(Folded):
    """The same with a number as key, of a thousand rows."""

    columns = COLUMNS.replace("k: STRING", "k: BIGINT")

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Of the keys of each file, in their order."""
        table = open_table(self.paths.table)
        assert table is not None
        files = pa.table(table.get_add_actions(flatten=True))
        return sorted(zip(files["min.k"].to_pylist(), files["max.k"].to_pylist(), strict=True))


@pytest.fixture
def numbered(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Numbered:
    monkeypatch.setattr(limits, "WHOLE_TABLE_ROWS", 0)
    monkeypatch.setattr(limits, "DRIVER_FOLD_BYTES", 0)
    monkeypatch.setattr(limits, "KEY_RANGE_BYTES", 1_500)
    return Numbered(spark, tmp_path)


@pytest.mark.parametrize("way", ["first fold", "MERGE", "anew"])
def test_many_records_are_laid_out_by_key(numbered: Numbered, way: str) -> None:
    if way == "MERGE":
        numbered.folds(numbered.commits([(-1, "before")]))
    numbered.folds(numbered.commits([(7919 * n % 1_000, "1") for n in range(1_000)]))
    if way == "anew":
        folding.refold(lambda: numbered.other, numbered.paths, ["k"], numbered.last)
    assert numbered.rows.keys() - {-1} == set(range(1_000))
    assert numbered.is_merged == (way == "MERGE")
    assert len(numbered.ranges) > 2
    assert all(high < low for (_, high), (low, _) in pairwise(numbered.ranges)), "no two files have one range"


def test_a_merge_looks_for_its_keys_in_their_range_alone(numbered: Numbered) -> None:
    numbered.folds(numbered.commits([(key, "1") for key in range(1_000)]))
    numbered.folds(numbered.commits([(999, "2"), (1_001, "1"), (998, None)]))
    assert {k: v for k, v in numbered.rows.items() if k > 996} == {997: "1", 999: "2", 1_001: "1"}
    assert len(numbered.rows) == 1_000
    table = open_table(numbered.paths.table)
    assert table is not None
    predicate = table.history(1)[0]["operationParameters"]["predicate"]
    assert "998" in predicate and "1001" in predicate


def test_files_of_a_range_are_not_small_for_maintenance() -> None:
    assert limits.KEY_RANGE_BYTES >= 2 * limits.SMALL_FILE_BYTES


def test_the_last_record_of_a_fractional_key_has_the_key_that_grouping_gives(spark: SparkSession) -> None:
    columns = COLUMNS.replace("k: STRING", "k: DOUBLE")
    lines = [
        #  key  value   timestamp, partition, offset, epoch
        ((0.0,), ("a",), 0, 0, 0, 1),
        ((-0.0,), ("b",), 0, 0, 1, 1),
        ((float("nan"),), ("c",), 0, 0, 2, 1),
        ((float("nan"),), ("d",), 0, 0, 3, 1),
    ]
    last = last_per_key(spark.createDataFrame(lines, columns)).select("key.k", "value.v").collect()
    assert sorted((str(row.k), row.v) for row in last) == [("0.0", "b"), ("nan", "d")]
