"""Whether the database keeps the rows of a table apart by a key."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rivermeet.infra.sources.postgres.repeated_key import has_unique_index, is_unique, key_warning
from rivermeet.pipelines import Postgres
from tests.servers.postgres import PostgresServer


@pytest.mark.parametrize(
    ("index", "key", "found"),
    [
        ("ALTER TABLE keyed ADD PRIMARY KEY (a)", "a", True),
        ("ALTER TABLE keyed ADD PRIMARY KEY (a)", ("a", "b"), True),
        ("ALTER TABLE keyed ADD UNIQUE (a, b)", ("b", "a"), True),
        ("CREATE UNIQUE INDEX ON keyed (a) INCLUDE (b)", "a", True),
        ("CREATE UNIQUE INDEX ON keyed (b) INCLUDE (a)", "a", False),
        ("ALTER TABLE keyed ADD UNIQUE (a, b)", "a", False),
        ("ALTER TABLE keyed ADD PRIMARY KEY (a) DEFERRABLE", "a", False),
        ("CREATE UNIQUE INDEX ON keyed (a) WHERE b > 1", "a", False),
        ("CREATE UNIQUE INDEX ON keyed ((a + 1))", "a", False),
        ("CREATE INDEX ON keyed (a)", "a", False),
    ],
)
def test_indexes(postgres: PostgresServer, index: str, key: Any, found: bool) -> None:
    import psycopg

    with psycopg.connect(f"{postgres.dsn} dbname=postgres") as connection:
        done = cast(Any, connection)
        done.execute("CREATE TABLE keyed (a int NOT NULL, b int NOT NULL)")
        done.execute(index)
        ((oid,),) = done.execute("SELECT 'keyed'::regclass::oid").fetchall()
        reads = Postgres("postgres.public.keyed", {"a": "INT", "b": "INT"}, key)
        assert has_unique_index(connection, reads, oid) is found
        assert (key_warning(connection, reads) is None) is found
        connection.rollback()


@pytest.mark.parametrize(
    ("kind", "declared", "apart"),
    [
        ("int", "BIGINT", True),
        ("numeric(9,2)", "DECIMAL(10,0)", True),
        ("numeric", "BIGINT", True),
        ("char(4)", "STRING", True),
        ("uuid", "STRING", True),
        ("timestamptz(0)", "TIMESTAMP", True),
        ("text", "INT", False),
        ("double precision", "FLOAT", False),
        ("timestamp", "DATE", False),
    ],
)
def test_types(postgres: PostgresServer, kind: str, declared: str, apart: bool) -> None:
    import psycopg

    with psycopg.connect(f"{postgres.dsn} dbname=postgres") as connection:
        done = cast(Any, connection)
        done.execute(f"CREATE TABLE keyed (a {kind} PRIMARY KEY)")
        ((oid,),) = done.execute("SELECT 'keyed'::regclass::oid").fetchall()
        assert is_unique(connection, Postgres("postgres.public.keyed", {"a": declared}, "a"), oid) is apart
        connection.rollback()
