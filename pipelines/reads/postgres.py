"""A table of PostgreSQL as a source: as it stands at first, and from then on each change of its rows.

    Postgres("shop.public.orders", schema={"id": "INT", "amount": "DECIMAL(10,2)"}, key="id")

    in the database                    records of the source
    a row (1, 9.50) is there           id 1, amount 9.50, pg_op r
    UPDATE … SET amount = 10           id 1, amount 10.00, pg_op u
    UPDATE … SET id = 2                id 1: a tombstone, pg_op d; then id 2, amount 10.00, pg_op i
    DELETE, or TRUNCATE                id 2: a tombstone

Where the server is, and how to log in there, is in settings alone (``infra/settings.py``). Held by
``tests/pipelines/test_postgres.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rivermeet.pipelines.errors import listed
from rivermeet.pipelines.reads.names import refuse_alike

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


@dataclass(frozen=True)
class Postgres:
    """A table, of which each change is consumed once, in the order of the commits.

    Attributes
    ----------
    table
        ``DATABASE.SCHEMA.TABLE``.
    schema
        Column name to Spark SQL type. The table may have more columns. What Spark has no type for (uuid, json, enums,
        intervals, arrays) is a STRING, as PostgreSQL writes it.
    key
        Columns that identify a row: of its replica identity, which is the primary key unless it was altered.
    """

    table: str
    schema: Mapping[str, str]
    key: str | Sequence[str]

    def __post_init__(self) -> None:
        parts = self.table.split(".")
        if len(parts) != 3 or not all(parts):
            raise ValueError(f"table {self.table!r}: write DATABASE.SCHEMA.TABLE, such as shop.public.orders")
        taken = [name for name, kind in self.schema.items() if FIELDS.get(name, kind) != kind]
        if taken:
            raise ValueError(f"table {self.table!r} has a column {taken[0]!r} that each record has; leave it out")
        refuse_alike(self.schema, f"the schema of table '{self.table}'")
        # As all sources have it: with what is there besides the table's own columns.
        columns = {name: kind for name, kind in self.schema.items() if name not in FIELDS}
        object.__setattr__(self, "schema", {**columns, **FIELDS})
        object.__setattr__(self, "key", (self.key,) if isinstance(self.key, str) else tuple(self.key))
        if not columns:
            raise ValueError(f"the schema of table {self.table!r} is empty; give column names and Spark types")
        unknown = [name for name in self.key if name not in columns]
        if unknown or not self.key:
            raise ValueError(
                f"key {listed(self.key)} of table {self.table!r}: give names of columns that its schema has "
                f"({listed(columns)})"
            )

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
        return {name: kind for name, kind in self.schema.items() if name not in FIELDS}

    @property
    def key_columns(self) -> Mapping[str, str]:
        """Columns that identify a row."""
        return {name: self.schema[name] for name in self.key}
