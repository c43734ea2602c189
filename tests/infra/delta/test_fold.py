"""A table is the last records of its changelog, whether it is written whole or merged into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from infra.delta import fold as folding
from infra.delta.fold import fold
from infra.delta.io import FOLDED, append
from infra.delta.layout import NodeTables
from infra.delta.lines import opened, rows_in
from infra.delta.staged import commit_staged, stage
from infra.engine.session import new_session
from infra.epochs.plan import CommitNote
from records.changelog import table_rows

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

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.other = spark, new_session(spark)
        self.paths = NodeTables(str(root), "p", "n")
        self.end, self.epoch = -1, 0

    def commits(self, records: list[tuple[str, str | None]]) -> CommitNote:
        self.epoch += 1
        lines = [((k,), v and (v,), 10 * o, 0, o, self.epoch) for o, (k, v) in enumerate(records, self.end + 1)]
        self.end += len(records)
        note = CommitNote(incarnation=1, epoch=self.epoch, ends={0: self.end})
        staged = stage(self.spark.createDataFrame(lines, COLUMNS), self.paths.changelog, f"epoch-{self.epoch}")
        assert staged is not None
        commit_staged(staged, "changelog", self.epoch, note)
        return note

    def folds(self, upto: CommitNote) -> bool:
        return fold(lambda: self.other, self.paths, ["k"], upto)

    @property
    def rows(self) -> dict[str, str]:
        """As any reader of Delta finds them."""
        return {row.k: row.v for row in self.spark.read.format("delta").load(self.paths.table).collect()}

    @property
    def is_merged(self) -> bool:
        table = opened(self.paths.table)
        assert table is not None
        return any(commit["operation"] == "MERGE" for commit in table.history())


@pytest.mark.parametrize("few", [20_000, *(pytest.param(few, marks=pytest.mark.prove) for few in (3, 0))])
def test_each_epoch_or_all_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(folding, "FEW", few)
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
    table = opened(each.paths.table)
    assert table is not None and rows_in(table) == 1
    assert (table.protocol().min_reader_version == 1) == (few == 20_000), "deletion vectors come with the first MERGE"


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
    table = opened(own.paths.table)
    assert table is not None
    assert len(table.file_uris()) == 1 and not own.is_merged
    assert table.version() == 2, "a commit each"
