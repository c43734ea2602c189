"""Small Delta tables of lines, and the metadata of any Delta table, without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.dataset import Dataset, ParquetFileFormat, ParquetReadOptions, Scanner, dataset

from rivermeet.infra.delta.location import LOG, files_below, is_local, tag_of
from rivermeet.pipelines import limits

# Files from before timestamps were written as microseconds have INT96, whose nanoseconds end in 2262.
_PARQUET = ParquetFileFormat(read_options=ParquetReadOptions(coerce_int96_timestamp_unit="us"))


def open_table(path: str, version: int | None = None) -> DeltaTable | None:
    """A cached, read-only DeltaTable; None if there is no table.

    A local table whose newest commit is the same file as before is not opened again: an epoch calls this a hundred
    times, at some 10 ms each. A log that was replaced by an older copy has other files, so it is reopened. For a table
    at a URL two objects are requested, the newest commit and the one after it, and nothing is listed.
    """
    if not is_local(path):
        return _open_at_url(path, version)
    newest = _newest_commit(path)
    try:
        return _open_local(path, version, newest) if newest else DeltaTable(path, version=version)
    except TableNotFoundError:
        return None


_behind: dict[str, tuple[DeltaTable, str]] = {}
"""The newest version seen of a table at a URL, and the tag of its commit."""


def _open_at_url(path: str, version: int | None) -> DeltaTable | None:
    table, tag = _behind.get(path, (None, ""))
    if table is None or tag != _tag(path, table.version()) or _tag(path, table.version() + 1) is not None:
        _behind.pop(path, None)
        try:
            table = DeltaTable(path)
        except TableNotFoundError:
            return None
        tag = _tag(path, table.version())
        if tag is not None:
            _behind[path] = table, tag
    if version is None or version == table.version():
        return table
    return _open_local(path, version, (path, hash(tag), table.version())) if tag else DeltaTable(path, version=version)


def _tag(path: str, version: int) -> str | None:
    return tag_of(path, f"{LOG}/{version:020}.json")


@lru_cache(maxsize=128)
def _open_local(path: str, version: int | None, newest: tuple[str, int, int]) -> DeltaTable:
    return DeltaTable(path, version=version)


class _Followed:
    """A table of lines, advanced by its new commits; opened again if it was replaced."""

    def __init__(self, path: str) -> None:
        self.lock, self._path = Lock(), path
        self._table: DeltaTable | None = None
        self._version = 0
        self._commit: tuple[str, int, int] | None = None

    def advance(self) -> DeltaTable | None:
        """The table at its newest version; None if there is no table."""
        table, self._table = self._table, None
        if table is not None and commit_file(self._path, self._version) == self._commit:
            if not is_local(self._path) or _newest_commit(self._path) != self._commit:
                table.update_incremental()
        else:
            try:
                table = DeltaTable(self._path)
            except TableNotFoundError:
                return None
        self._version = table.version()
        self._commit = commit_file(self._path, self._version)
        self._table = table if self._commit is not None else None
        return table


@lru_cache(maxsize=32)
def _follow(path: str, use: Literal["read", "write"]) -> _Followed:
    """A reader's is another than a writer's, which must not be advanced between its check and its commit."""
    return _Followed(path)


def open_lines(path: str) -> DeltaTable | None:
    """A table of lines at its newest version, for reading; None if there is no table.

    A run writes some fifty lines to the epoch log and the quality table, and reads them between: a table is advanced by
    its new commits, at 3 ms of processor time, where to open it reads all since the last checkpoint, at up to 90. Who
    holds it may find newer lines in it.
    """
    followed = _follow(path, "read")
    with followed.lock:
        return followed.advance()


def _newest_commit(path: str) -> tuple[str, int, int] | None:
    try:
        with os.scandir(os.path.join(path, LOG)) as log:
            name = max(file.name for file in log if file.name.endswith(".json"))
    except (OSError, ValueError):  # not a local folder, or no commit in it
        return None
    return _file(path, name)


def commit_file(path: str, version: int) -> tuple[str, int, int] | None:
    """Name, inode and time (ns) of a commit's file; None if unknown, or if its log was cut.

    At a URL: the tag of the commit's object.
    """
    if is_local(path):
        return _file(path, f"{version:020}.json")
    tag = _tag(path, version)
    return None if tag is None else (path, hash(tag), version)


def _file(path: str, name: str) -> tuple[str, int, int] | None:
    try:
        status = os.stat(os.path.join(path, LOG, name))
    except OSError:
        return None
    return name, status.st_ino, status.st_mtime_ns


def rows_in(table: DeltaTable) -> int | None:
    """The number of rows, from the statistics of the log; None if a file has none, or if only Spark can read it."""
    written = pa.table(table.get_add_actions(flatten=True))["num_records"]
    if written.null_count:
        return None
    try:
        vectors = list(table.deletion_vectors())
    except DeltaError:  # a feature that delta-rs does not know: tests/infra/delta/test_schema_evolution.py
        return None
    masks = (mask for batch in vectors for mask in pa.record_batch(batch)["selection_vector"])
    return sum(written.to_pylist()) - sum(mask.values.false_count for mask in masks)


def commits(table: DeltaTable) -> Iterator[Mapping[str, Any]]:
    """Commits of a table, newest first, each with its ``version``; read lazily."""
    known, limit = 0, 8
    while True:
        found = table.history(limit)
        yield from found[known:]
        if len(found) < limit:
            return
        known, limit = len(found), 4 * limit


Chosen = Callable[[pa.Table], pa.Table]
"""Filters a table's files, one a row: ``path``, and ``min.COLUMN`` and ``max.COLUMN`` if there are statistics of it."""


def lines_of(table: DeltaTable, path: str, schema: pa.Schema, chosen: Chosen = lambda files: files) -> Dataset:
    """Lines of the ``chosen`` files of a table; a column that a file lacks is null.

    Delta's own dataset examines every file's statistics one by one: 4 s for 10,000 lines.
    """
    wanted = chosen(pa.table(table.get_add_actions(flatten=True)))
    return dataset(wanted["path"].to_pylist(), schema, _PARQUET, files_below(path))


def read_within(scanner: Scanner, room: int) -> pa.Table | None:
    """What a scanner reads; None if that takes more bytes of memory than there is ``room`` for."""
    batches: list[pa.RecordBatch] = []
    for batch in scanner.to_batches():
        batches.append(batch)
        if (room := room - batch.nbytes) < 0:
            return None
    return pa.Table.from_batches(batches, scanner.projected_schema)


def append_lines(lines: Sequence[Mapping[str, Any]], schema: pa.Schema, path: str, app_id: str, version: int) -> None:
    """Append lines, unless a write of ``app_id`` with this ``version`` or a higher one exists.

    A table from an older version of the code gets the columns that it lacks. If two machines write the same line at
    once, one succeeds: the commit is made on top of the version that was read, and Delta rejects a commit that
    conflicts with another one of the same ``app_id``.
    """
    followed = _follow(path, "write")
    with followed.lock:
        for rival in range(limits.RIVAL_LINES):
            if (table := followed.advance()) is not None:
                done = table.transaction_version(app_id)
                if done is not None and done >= version:
                    return
            try:
                write_deltalake(
                    path if table is None else table,
                    pa.Table.from_pylist(list(lines), schema),
                    mode="error" if table is None else "append",
                    schema_mode=None if table is None else "merge",
                    commit_properties=CommitProperties(
                        # The creation of a table is tried once: a second attempt of the loser would append without a
                        # check.
                        max_commit_retries=0 if table is None else None,
                        app_transactions=[Transaction(app_id, version)],
                    ),
                )
                return
            except DeltaError:
                if is_local(path) or rival == limits.RIVAL_LINES - 1:
                    raise
