"""Finds a key that two rows of a table have at the same time, one of which would be lost.

| a row gets a key | the key is repeated |
|---|---|
| in a snapshot, and so does another | yes |
| by an insert, or an update of its key; the last change of the epoch before left a row there | yes |
| by the same, first of the epoch; our own table has a row there | yes |
| after a delete, an update of that row's key, or a truncate | no |

Keys are compared in the declared type: texts '1' and '01' are the same INT. If the database guarantees unique keys, and
the types preserve that, there is no check:

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

Held by ``tests/infra/sources/postgres/test_repeated_key.py`` and ``tests/infra/postgres/test_unique.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.infra.postgres.state import table_state
from rivermeet.infra.sources.postgres.rows import OP, decode_landed
from rivermeet.pipelines import Postgres

if TYPE_CHECKING:
    import psycopg


def find_repeated_key(landed: DataFrame, reads: Postgres, own: DataFrame | None) -> str | None:
    """A repeated key, as JSON; None if there is none.

    ``landed`` are the rows of an epoch as they were read, and ``own`` those of the node's own table before it, by the
    identifying columns; None if there are none, or not needed.
    """
    texts = {at: f"c{list(reads.columns).index(name)}" for at, name in enumerate(reads.key)}
    place = [name for name in landed.columns if not name.startswith("c") or not name[1:].isdigit()]
    keys = landed.select(*place, *[F.col(text).alias(f"c{at}") for at, text in texts.items()])
    rows = decode_landed(keys, replace(reads, schema=reads.key_columns))
    named = F.struct(*[F.col(f"typed.t{at}").alias(name) for at, name in enumerate(reads.key)])
    op = F.col(f"typed.t{len(reads.key) + OP}")
    events = rows.where(F.isnull("malformed")).select(
        named.alias("key"), op.alias("op"), F.struct("file_rank", "block", "row").alias("place")
    )
    events = events.where(F.forall(F.array(*[F.isnotnull(f"key.{name}") for name in reads.key]), lambda there: there))
    before = F.lag(F.struct("op", "place")).over(Window.partitionBy("key").orderBy("place"))
    asked = events.select("*", before.alias("before")).where(F.col("op").isin("i", "r"))
    left = (F.col("before.op") != "d") & (F.col("before.place.file_rank") == F.col("place.file_rank"))
    found = asked.where(left).select("key")
    if own is not None:
        first = asked.where(F.isnull("before") & (F.col("place.file_rank") == 0)).select("key")
        found = found.unionByName(first.join(own.select("key"), "key", "left_semi"))
    shown = found.select(F.to_json("key").alias("key")).limit(1).collect()
    return shown[0].key if shown else None


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
