r"""Landed rows as rows of a source: declared columns with their types, or why a row has none.

    id 1, amount 9.50, DECIMAL(10,2)      typed: id 1, amount 9.50, pg_op i, pg_commit_lsn 900, …
    id 1, amount 9.505                    malformed: column 'amount': '9.505' is not DECIMAL(10,2)
    id 1, at infinity, TIMESTAMP          malformed: column 'at': 'infinity' is not TIMESTAMP
    id 1, body \x00ff, BINARY             typed: two bytes

In a row's dead letter, ``file`` is DATABASE.SCHEMA.TABLE, ``line`` the position of its commit, ``text`` the columns
as printed by the database, in JSON, and ``header`` the rest. Held by ``tests/infra/sources/postgres/test_types.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rivermeet.infra.sources.declared_types import declare, no_text, not_a
from rivermeet.pipelines import Postgres

OP = 3
"""Place of ``pg_op`` among the columns that each record has."""
LINEAGE: Mapping[str, str] = {
    "unchanged": "ARRAY<INT>",
    "earlier_key": "ARRAY<STRING>",
    "branch": "INT",
}
"""Columns of `typed` after those of the source, by which omitted values are filled in."""


def decode_landed(landed: DataFrame, reads: Postgres, lineage: bool = False) -> DataFrame:
    """The result of `as_declared` for landed rows; with ``lineage``, ``typed`` has the columns of `LINEAGE` as well."""
    columns: dict[str, Column] = {}
    problems: list[Column] = []
    for at, (name, kind) in enumerate(reads.columns.items()):
        text = F.col(f"c{at}")
        columns[name] = F.unhex(F.substring(text, 3, 2**31 - 1)) if kind.upper() == "BINARY" else text
        if kind.upper() == "BINARY":
            problems.append(F.when(~F.startswith(text, F.lit("\\x")), not_a(f"column '{name}'", text, kind)))
    columns |= {
        "pg_commit_lsn": F.col("lsn"),
        "pg_commit_timestamp": F.col("timestamp"),
        "pg_xid": F.col("xid"),
        "pg_op": F.col("op"),
        "pg_tombstone": F.col("op") == "d",
    }
    kinds = dict(reads.schema)
    if lineage:
        columns |= {name: F.col(name) for name in LINEAGE}
        kinds |= LINEAGE
    shown = F.struct(*[F.col(f"c{at}").alias(name) for at, name in enumerate(reads.columns)])
    return declare(
        landed,
        kinds,
        [columns[name] for name in kinds],
        F.coalesce(*problems, no_text()),
        file=F.lit(reads.table),
        modified_ms=F.col("timestamp"),
        member=no_text(),
        line=F.col("lsn"),
        text=F.to_json(shown, {"ignoreNullFields": "false"}),
        header=F.to_json(F.struct("op", "lsn", "timestamp", "xid", "unchanged")),
    )
