"""Options of a source that reads a table of PostgreSQL, as its changes ask for them.

| declared | of a table | of a stream |
|---|---|---|
| no key | the columns that identify a row | the same |
| another key | refused: who leaves a key must be known of a row that is gone | taken |
| ``where="n > 1"``, and a row that has it no more | is gone | gives no record |
| no timestamp | the time of the commit | the same |
| ``timestamp="at"``, a column; a deleted row | the time of the commit: the log has no ``at`` of it | the same |

Held by ``tests/pipelines/test_postgres.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rivermeet.pipelines.errors import listed
from rivermeet.pipelines.reads.postgres import Postgres
from rivermeet.pipelines.source import Expr, quoted

_GONE = "pg_tombstone"
_TIME = "pg_commit_timestamp"
_CLOCKS = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")


def change_log_options(table: Postgres, options: Mapping[str, Any], is_table: bool) -> dict[str, Any]:
    """Options with what a change log gives by itself; ValueError for one that it cannot have."""
    if "duplicate_files" in options:
        raise ValueError("duplicate_files is of files, and a table of PostgreSQL has none; leave it out")
    key = options.get("key", list(table.key))
    if is_table:
        _refuse_other_key(table, key)
    where, tombstone = options.get("where"), options.get("tombstone")
    gone = _GONE if tombstone is None else f"{_GONE} OR ({tombstone})"
    if where is not None and is_table:
        # A row that was there and has left the filter must leave the table, too.
        gone, where = f"{gone} OR NOT coalesce(({where}), false)", None
    elif where is not None:
        where = f"coalesce(({where}), {_GONE})"
    return {
        **options,
        "key": key,
        "where": where,
        "tombstone": gone,
        "timestamp": _timestamp(table, options.get("timestamp", _TIME)),
    }


def _refuse_other_key(table: Postgres, key: Any) -> None:
    named = key.values() if isinstance(key, Mapping) else key
    texts = [part.sql if isinstance(part, Expr) else quoted(part) for part in named]
    if sorted(texts) != sorted(quoted(column) for column in table.key):
        raise ValueError(
            f"key {listed(key)} is not what identifies a row of '{table.table}' ({listed(table.key)}): of a row that "
            "is deleted, the log has no more. Give key= of Postgres(…) those columns, and make them the table's "
            "REPLICA IDENTITY; or read it as a stream"
        )


def _timestamp(table: Postgres, timestamp: str) -> str:
    """A column's time, where the log has it; a deleted row has the time of its commit."""
    kind = table.columns.get(timestamp.strip("`"), "").upper()
    if not kind:
        return timestamp
    commit = f"timestamp_millis({_TIME})" if kind in _CLOCKS else _TIME
    return f"CASE WHEN {_GONE} THEN {commit} ELSE {quoted(timestamp.strip('`'))} END"
