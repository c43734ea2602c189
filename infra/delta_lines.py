"""Small Delta tables of lines, and the metadata of any Delta table, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError


def opened(path: str, version: int | None = None) -> DeltaTable | None:
    """Metadata of a Delta table; None where there is no table."""
    try:
        return DeltaTable(path, version=version)
    except TableNotFoundError:
        return None


def commits(table: DeltaTable) -> Iterator[Mapping[str, Any]]:
    """Commits of a table, newest first, each with its ``version``; read only as far back as they are asked for."""
    known, limit = 0, 8
    while True:
        found = table.history(limit)
        yield from found[known:]
        if len(found) < limit:
            return
        known, limit = len(found), 4 * limit


def append_lines(lines: Sequence[Mapping[str, Any]], schema: pa.Schema, path: str, app_id: str, version: int) -> None:
    """Append lines, unless a write of ``app_id`` with this ``version`` or a higher one is there already.

    A column that the table lacks is added to it.
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
