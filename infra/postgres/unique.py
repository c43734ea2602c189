"""Whether a key keeps a table's rows apart: by a unique index over its columns, or some of them, and by its types.

| index over ``a`` | of key ``a``, or ``a, b`` |
|---|---|
| unique, of a constraint or by itself | yes |
| unique over ``a, c``; partial; of an expression; not valid yet | no |
| ``DEFERRABLE``: two rows may have the same within a transaction | no |

| in the database | declared | keys stay apart |
|---|---|---|
| any type | STRING | yes |
| integers, numeric | integers, DECIMAL | yes |
| date; timestamptz; timestamp | DATE; TIMESTAMP; TIMESTAMP_NTZ | yes |
| bytea; boolean | BINARY; BOOLEAN | yes |
| a text | INT: '1' and '01' are one | no |
| double precision | FLOAT, DOUBLE: -0 and 0 are one | no |

Held by ``tests/infra/postgres/test_unique.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rivermeet.infra.postgres.state import table_state
from rivermeet.pipelines import Postgres

if TYPE_CHECKING:
    import psycopg

_INDEXES = """
SELECT ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]))
FROM pg_index i WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate
AND i.indpred IS NULL AND i.indexprs IS NULL
"""
_TYPES = """
SELECT attname::text, atttypid::regtype::text FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
"""
# What is not exactly of the declared type is a dead letter.
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "LONG", "DECIMAL", "DEC", "NUMERIC")
_APART: Mapping[str, tuple[str, ...]] = {
    "smallint": _NUMBERS,
    "integer": _NUMBERS,
    "bigint": _NUMBERS,
    "numeric": _NUMBERS,
    "date": ("DATE",),
    "timestamp with time zone": ("TIMESTAMP",),
    "timestamp without time zone": ("TIMESTAMP_NTZ",),
    "bytea": ("BINARY",),
    "boolean": ("BOOLEAN",),
}


def has_unique_index(connection: psycopg.Connection[Any], reads: Postgres, oid: int) -> bool:
    """Whether the database keeps two rows from having one key."""
    return any(set(columns) <= set(reads.key) for (columns,) in connection.execute(_INDEXES, [oid]))


def is_unique(connection: psycopg.Connection[Any], reads: Postgres, oid: int) -> bool:
    """Whether no two rows can have one key, as it is declared."""
    kinds = dict(connection.execute(_TYPES, [oid]).fetchall())
    apart = all(_stay_apart(kinds.get(name, ""), wanted) for name, wanted in reads.key_columns.items())
    return apart and has_unique_index(connection, reads, oid)


def key_warning(connection: psycopg.Connection[Any], reads: Postgres) -> str | None:
    """What a user should know of a key that the database does not keep unique; None where it does."""
    table = table_state(connection, reads)
    if table is None or has_unique_index(connection, reads, table.oid):
        return None
    from psycopg import sql

    columns = sql.SQL(", ").join(map(sql.Identifier, reads.key)).as_string(connection)
    return (
        f"no unique index over {', '.join(reads.key)} keeps two rows from having one key, so that each run looks for "
        f"such keys: CREATE UNIQUE INDEX ON {table.shown} ({columns})"
    )


def _stay_apart(kind: str, wanted: str) -> bool:
    declared = wanted.upper().partition("(")[0].strip()
    return declared == "STRING" or declared in _APART.get(kind, ())
