"""Metadata of tables without Spark: what has not changed is opened once, what has is never taken for what it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from rivermeet.infra.delta.lines import append_lines, open_table
from rivermeet.infra.epochs.log import EpochLog

SCHEMA = pa.schema([("n", pa.int64())])


def test_a_table_is_opened_once_for_each_commit(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    assert open_table(path) is None
    append_lines([{"n": 1}], SCHEMA, path, "a", 1)
    first = open_table(path)
    assert first is not None and open_table(path) is first
    append_lines([{"n": 2}], SCHEMA, path, "a", 2)
    second, then = open_table(path), open_table(path, 0)
    assert second is not None and then is not None
    assert (first.version(), second.version(), then.version()) == (0, 1, 0)


def test_an_older_copy_and_another_table_of_the_same_version_are_seen(tmp_path: Path) -> None:
    path, copy = tmp_path / "t", tmp_path / "copy"
    append_lines([{"n": 1}], SCHEMA, str(path), "a", 1)
    shutil.copytree(path, copy)
    append_lines([{"n": 2}], SCHEMA, str(path), "a", 2)
    assert files(path) == 2
    shutil.rmtree(path)
    shutil.copytree(copy, path)
    assert files(path) == 1
    shutil.rmtree(path)
    write_deltalake(str(path), pa.table({"other": [1]}))
    other = open_table(str(path))
    assert other is not None and [field.name for field in other.schema().fields] == ["other"]


def files(path: Path) -> int:
    table = open_table(str(path))
    assert table is not None
    return len(table.file_uris())


def test_a_log_sees_what_another_process_wrote(tmp_path: Path) -> None:
    path, lock = str(tmp_path / "log"), str(tmp_path / "lock")
    mine, theirs = EpochLog(path, lock), EpochLog(path, lock)
    assert mine.lines("x", "plan") == {}
    mine.write("x", 1, 1, "plan", "one")
    assert mine.lines("x", "plan") == theirs.lines("x", "plan") == {1: "one"}
    theirs.write("x", 1, 2, "plan", "two")
    theirs.write("y", 1, 3, "plan", "other")
    assert mine.lines("x", "plan") == {1: "one", 2: "two"}
    assert (mine.lines("x", "plan", after=1), mine.next_epoch("x", 2)) == ({2: "two"}, 3)
    DeltaTable(path).optimize.compact()
    assert mine.lines("x", "plan") == {1: "one", 2: "two"}
