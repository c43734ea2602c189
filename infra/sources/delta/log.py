"""The changes of each commit of a Delta table, from the entries of its log, without Spark.

    _delta_log/00000000000000000004.json
    {"commitInfo": {"timestamp": 1000, "operation": "UPDATE"}}
    {"cdc": {"path": "_change_data/c.parquet", …}}                    changed: what the change data feed has of it
    {"remove": {"path": "a.parquet", "dataChange": true, …}}          removed
    {"add": {"path": "b.parquet", "dataChange": true, …}}             added
    {"add": {"path": "all.parquet", "dataChange": false, …}}          nothing: compaction does not change rows

A commit's time is that in its entry, which a copy of the table keeps, and not that of the entry's file. Source: the
Delta protocol, "Delta Log Entries" and "Actions". Held by ``tests/infra/sources/delta/test_log.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileSystem, FileType, PyFileSystem

from rivermeet.infra.delta.location import LOG

_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*parquet|(\d{20})\.checkpoint\..*json")
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
BYTES_A_ROW = 32
"""Assumed rows of a file whose entry has no row count."""


@dataclass(frozen=True)
class DataFile:
    """A file of rows; ``path`` is relative to the table or absolute."""

    path: str
    partition: Mapping[str, str | None]
    rows: int


@dataclass(frozen=True)
class Commit:
    """The row changes of a version, its time (epoch millis), and the table's properties if they changed."""

    version: int
    timestamp: int
    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    changed: tuple[DataFile, ...] = ()
    properties: Mapping[str, str] | None = None

    @property
    def feed_files(self) -> tuple[DataFile, ...]:
        """Files that the change data feed reads for it."""
        return self.changed or (*self.added, *self.removed)


def versions(path: str) -> tuple[list[int], int | None]:
    """Versions with an entry, and the oldest that can be read completely; None if there is none."""
    files = _storage(path).get_file_info(FileSelector(LOG, allow_not_found=True))
    names = [file.base_name for file in files if file.type == FileType.File]
    entries = sorted(int(found[1]) for name in names if (found := _ENTRY.fullmatch(name)))
    checkpoints = [int(found[1] or found[2]) for name in names if (found := _CHECKPOINT.fullmatch(name))]
    whole = 0 if entries and entries[0] == 0 else min(checkpoints, default=None)
    return entries, whole


def commits(path: str, start: int, end: int) -> Iterator[Commit]:
    """The commits of these versions, both included; FileNotFoundError if an entry is missing."""
    storage = _storage(path)
    for version in range(start, end + 1):
        with storage.open_input_stream(f"{LOG}/{version:020}.json") as entry:
            yield _commit(version, (json.loads(line) for line in entry.read().splitlines() if line.strip()))


def find_missing(path: str, files: Iterable[str]) -> list[str]:
    """The missing files of a table; files outside of the table are not checked."""
    inside = [file for file in files if not _ABSOLUTE.match(file)]
    found = _storage(path).get_file_info(inside) if inside else []
    return [name for name, file in zip(inside, found, strict=True) if file.type != FileType.File]


def locate(path: str, file: str) -> str:
    """The location of a file of the table at ``path``."""
    return file if _ABSOLUTE.match(file) else f"{path.rstrip('/')}/{file}"


def _commit(version: int, actions: Iterable[Mapping[str, Any]]) -> Commit:
    time = written = 0
    added, removed, changed = [], [], []
    properties: Mapping[str, str] | None = None
    for action in actions:
        if (info := action.get("commitInfo")) is not None:
            time = int(info.get("inCommitTimestamp") or info.get("timestamp") or 0)
        elif (meta := action.get("metaData")) is not None:
            properties = meta.get("configuration") or {}
        elif (add := action.get("add")) is not None and add["dataChange"]:
            written = max(written, int(add["modificationTime"]))
            added.append(_file(add))
        elif (gone := action.get("remove")) is not None and gone["dataChange"]:
            removed.append(_file(gone))
        elif (change := action.get("cdc")) is not None:
            changed.append(_file(change))
    return Commit(version, time or written, tuple(added), tuple(removed), tuple(changed), properties)


def _file(action: Mapping[str, Any]) -> DataFile:
    stats = json.loads(action.get("stats") or "{}")
    rows = stats.get("numRecords", (action.get("size") or 0) // BYTES_A_ROW)
    partition = {name: value or None for name, value in (action.get("partitionValues") or {}).items()}
    return DataFile(unquote(action["path"]), partition, rows)


def _storage(path: str) -> FileSystem:
    return PyFileSystem(DeltaStorageHandler(path))
