"""A table of PostgreSQL as a source: first a snapshot, then each change of its rows.

    Postgres("shop.public.orders", schema={"id": "INT", "amount": "DECIMAL(10,2)"}, key="id")

    in the database                    records of the source
    a row (1, 9.50) exists             id 1, amount 9.50, pg_op r
    UPDATE … SET amount = 10           id 1, amount 10.00, pg_op u
    UPDATE … SET id = 2                id 1: a tombstone, pg_op d; then id 2, amount 10.00, pg_op i
    DELETE, or TRUNCATE                id 2: a tombstone

Its options follow from the nature of a change log:

| declared | of a table | of a stream |
|---|---|---|
| no key | the columns that identify a row | the same |
| another key | refused: the old key of a deleted row must be known | accepted |
| ``where="n > 1"``, and a row that no longer satisfies it | is deleted | gives no record |
| no timestamp | the time of the commit | the same |
| ``timestamp="at"``, a column; a deleted row | the time of the commit: the log has no ``at`` of it | the same |

Address and credentials of the server are only in settings (``infra/settings.py``). Held by
``tests/pipelines/test_postgres.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rivermeet.pipelines.errors import OptionError, list_choices
from rivermeet.pipelines.expressions import Expr, quote
from rivermeet.pipelines.reads.reads import Reads, refuse_alike

FIELDS: Mapping[str, str] = {
    "pg_commit_lsn": "BIGINT",
    "pg_commit_timestamp": "BIGINT",
    "pg_xid": "BIGINT",
    "pg_op": "STRING",
    "pg_tombstone": "BOOLEAN",
}
"""Columns that each record has besides the table's.

Position and time (epoch millis) of its transaction's commit, the transaction's number, what was done (``r`` for a row
of a snapshot, ``i``, ``u``, ``d``), and whether the row is gone. A row of a snapshot has those of the snapshot.
"""
_GONE = "pg_tombstone"
_TIME = "pg_commit_timestamp"
_CLOCKS = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")


@dataclass(frozen=True)
class Postgres(Reads):
    """A table; each change is consumed once, in the order of the commits.

    Attributes
    ----------
    table
        ``DATABASE.SCHEMA.TABLE``.
    schema
        Column name to Spark SQL type. The table may have more columns. Types that Spark lacks (uuid, json, enums,
        intervals, arrays) are STRING, as PostgreSQL prints them.
    key
        Columns that identify a row: of its replica identity, which is the primary key unless it was altered.
    """

    added: ClassVar[Mapping[str, str]] = FIELDS
    table: str
    schema: Mapping[str, str]
    key: str | Sequence[str]

    def __post_init__(self) -> None:
        parts = self.table.split(".")
        if len(parts) != 3 or not all(parts):
            raise OptionError(f"table {self.table!r}: write DATABASE.SCHEMA.TABLE, such as shop.public.orders")
        taken = [name for name, kind in self.schema.items() if FIELDS.get(name, kind) != kind]
        if taken:
            raise OptionError(f"table {self.table!r} has a column {taken[0]!r} that each record has; leave it out")
        refuse_alike(self.schema, f"the schema of table '{self.table}'")
        # As in all sources: with the columns that are added to the table's own.
        columns = self.value_columns
        object.__setattr__(self, "schema", {**columns, **FIELDS})
        object.__setattr__(self, "key", (self.key,) if isinstance(self.key, str) else tuple(self.key))
        if not columns:
            raise OptionError(f"the schema of table {self.table!r} is empty; give column names and Spark types")
        unknown = [name for name in self.key if name not in columns]
        if unknown or not self.key:
            raise OptionError(
                f"key {list_choices(self.key)} of table {self.table!r}: give names of columns that its schema has "
                f"({list_choices(columns)})"
            )

    @property
    def label(self) -> str:
        """The table."""
        return f"table '{self.table}'"

    def options(self, options: Mapping[str, Any], is_table: bool) -> Mapping[str, Any]:
        """The options that follow from a change log."""
        if "duplicate_files" in options:
            raise OptionError("duplicate_files is of files, and a table of PostgreSQL has none; leave it out")
        key = options.get("key", list(self.key))
        if is_table:
            _refuse_other_key(self, key)
        where, tombstone = options.get("where"), options.get("tombstone")
        gone = _GONE if tombstone is None else f"{_GONE} OR ({tombstone})"
        if where is not None and is_table:
            # A row that no longer satisfies the filter must be deleted from the table, too.
            gone, where = f"{gone} OR NOT coalesce(({where}), false)", None
        elif where is not None:
            where = f"coalesce(({where}), {_GONE})"
        timestamp = _timestamp(self, options.get("timestamp", _TIME))
        return {**options, "key": key, "where": where, "tombstone": gone, "timestamp": timestamp}

    @property
    def database(self) -> str:
        """Name of the database."""
        return self.table.split(".")[0]

    @property
    def place(self) -> tuple[str, str]:
        """Schema and name of the table."""
        _, schema, name = self.table.split(".")
        return schema, name

    @property
    def columns(self) -> Mapping[str, str]:
        """The table's own columns, of those that expressions may use."""
        return self.value_columns

    @property
    def key_columns(self) -> Mapping[str, str]:
        """Columns that identify a row."""
        return {name: self.schema[name] for name in self.key}


def _refuse_other_key(reads: Postgres, key: Any) -> None:
    named = key.values() if isinstance(key, Mapping) else key
    texts = [part.sql if isinstance(part, Expr) else quote(part) for part in named]
    if sorted(texts) != sorted(quote(column) for column in reads.key):
        raise OptionError(
            f"key {list_choices(key)} is not what identifies a row of '{reads.table}' ({list_choices(reads.key)}): "
            "of a row that is deleted, the log has no more. Give key= of Postgres(…) those columns, and make them the "
            "table's REPLICA IDENTITY; or read it as a stream"
        )


def _timestamp(reads: Postgres, timestamp: str) -> str:
    """A column's time, if the log has it; a deleted row has the time of its commit."""
    kind = reads.columns.get(timestamp.strip("`"), "").upper()
    if not kind:
        return timestamp
    commit = f"timestamp_millis({_TIME})" if kind in _CLOCKS else _TIME
    return f"CASE WHEN {_GONE} THEN {commit} ELSE {quote(timestamp.strip('`'))} END"
