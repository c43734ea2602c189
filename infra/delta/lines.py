"""Small Delta tables of lines, and the metadata of any Delta table, without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.dataset import Dataset, dataset
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from infra.delta.log import LOG


def opened(path: str, version: int | None = None) -> DeltaTable | None:
    """Metadata of a Delta table, to be read and not written with; None where there is no table.

    A table of this machine whose newest commit is the very file that it was is not opened again: an epoch asks a
    hundred times, at some 10 ms each. A log that was replaced by an older copy has other files, and is.
    """
    newest = _newest_commit(path)
    try:
        return _opened(path, version, newest) if newest else DeltaTable(path, version=version)
    except TableNotFoundError:
        return None


@lru_cache(maxsize=128)
def _opened(path: str, version: int | None, newest: tuple[str, int, int]) -> DeltaTable:
    return DeltaTable(path, version=version)


def _newest_commit(path: str) -> tuple[str, int, int] | None:
    try:
        with os.scandir(os.path.join(path, LOG)) as log:
            name = max(file.name for file in log if file.name.endswith(".json"))
    except (OSError, ValueError):  # no folder of this machine, or no commit in it
        return None
    return _file(path, name)


def commit_file(path: str, version: int) -> tuple[str, int, int] | None:
    """Name, inode and time (ns) of a commit's file; None where that is unknown, or its log was cut."""
    return _file(path, f"{version:020}.json")


def _file(path: str, name: str) -> tuple[str, int, int] | None:
    try:
        status = os.stat(os.path.join(path, LOG, name))
    except OSError:
        return None
    return name, status.st_ino, status.st_mtime_ns


def rows_in(table: DeltaTable) -> int | None:
    """How many rows a table has, by the statistics of its log; None where a file has none, or only Spark reads it."""
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
    """Commits of a table, newest first, each with its ``version``; read only as far back as they are asked for."""
    known, limit = 0, 8
    while True:
        found = table.history(limit)
        yield from found[known:]
        if len(found) < limit:
            return
        known, limit = len(found), 4 * limit


def lines_of(table: DeltaTable, path: str, schema: pa.Schema, files: Callable[[pa.Table], pa.Table]) -> Dataset:
    """Lines of some of the table's files; a column that a file lacks is null.

    Delta's own dataset looks at every file's statistics one by one: 4 s for 10,000 lines.

    Parameters
    ----------
    files
        Leaves those that are wanted of the files, one a row: ``path``, and ``min.COLUMN`` and ``max.COLUMN`` where the
        table has statistics of them.
    """
    wanted = files(pa.table(table.get_add_actions(flatten=True)))
    return dataset(wanted["path"].to_pylist(), schema, "parquet", _folder(path))


def _folder(path: str) -> FileSystem:
    # Arrow's threads read ahead. Behind delta-rs' handler they call Python, and a process that ends meanwhile aborts
    # (tests/assets/cli/test_idle.py).
    return PyFileSystem(DeltaStorageHandler(path)) if "://" in path else SubTreeFileSystem(path, LocalFileSystem())


def append_lines(lines: Sequence[Mapping[str, Any]], schema: pa.Schema, path: str, app_id: str, version: int) -> None:
    """Append lines, unless a write of ``app_id`` with this ``version`` or a higher one is there already.

    A table that an older version of the code wrote gets the columns that it lacks.
    """
    table = opened(path)
    done = table.transaction_version(app_id) if table is not None else None
    if done is not None and done >= version:
        return
    write_deltalake(
        path,
        pa.Table.from_pylist(list(lines), schema),
        mode="append",
        schema_mode="merge",
        commit_properties=CommitProperties(app_transactions=[Transaction(app_id, version)]),
    )
