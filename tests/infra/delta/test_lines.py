"""Metadata of tables without Spark: what has not changed is opened once, what has is never taken for what it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta import lines
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.lines import append_lines, lines_of, open_lines, open_table
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


def test_lines_are_followed_and_a_table_that_was_replaced_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, path, copy = list[str](), tmp_path / "t", tmp_path / "copy"

    def open_it(of: str) -> DeltaTable:
        opened.append(of)
        return DeltaTable(of)

    monkeypatch.setattr(lines, "DeltaTable", open_it)
    for n in range(3):
        append_lines([{"n": n}], SCHEMA, str(path), "a", n)
        assert read(path) == [*range(n + 1)]
    append_lines([{"n": 9}], SCHEMA, str(path), "a", 2)
    assert read(path) == [0, 1, 2], "it is there already"
    # By who writes, before there was a table; by who reads, once there was; and by who writes again.
    assert len(opened) == 3
    shutil.copytree(path, copy)
    write_deltalake(str(path), pa.table({"n": [3]}), mode="append")
    assert read(path) == [0, 1, 2, 3], "another process has written"
    DeltaTable(str(path)).optimize.compact()
    assert read(path) == [0, 1, 2, 3]
    assert len(opened) == 3
    shutil.rmtree(path)
    shutil.copytree(copy, path)
    assert read(path) == [0, 1, 2]
    append_lines([{"n": 4}], SCHEMA, str(path), "a", 4)
    assert read(path) == [0, 1, 2, 4]
    assert len(opened) == 5


def read(path: Path) -> list[int]:
    table = open_lines(str(path))
    assert table is not None
    return sorted(lines_of(table, str(path), SCHEMA, lambda files: files).to_table()["n"].to_pylist())


def test_the_last_note_of_an_unchanged_table_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, asked = str(tmp_path / "t"), list[int]()
    history = DeltaTable.history

    def counting(table: DeltaTable, limit: int | None = None) -> Any:
        asked.append(table.version())
        return history(table, limit)

    monkeypatch.setattr(DeltaTable, "history", counting)
    assert last_note(path) is None
    for epoch in (1, 2):
        about = CommitNote(incarnation=1, epoch=epoch, ends={0: epoch}).model_dump_json()
        commit = CommitProperties(custom_metadata={"userMetadata": about})
        write_deltalake(path, pa.table({"n": [1]}), mode="append", commit_properties=commit)
        for _ in range(3):
            found = last_note(path)
            assert found is not None and (found[0], found[1].epoch) == (epoch - 1, epoch)
    assert asked == [0, 1]


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
