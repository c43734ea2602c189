"""A table that was just filled counts as large: what its snapshot's epoch keeps and shuffles is fitted to that."""

from __future__ import annotations

import pytest

from rivermeet.infra.postgres.state import table_state
from rivermeet.pipelines import Postgres, limits
from tests.servers.postgres import PostgresServer

ROWS = 100_000
PARTS = "CREATE TABLE counted_{n} PARTITION OF counted FOR VALUES FROM ({a}) TO ({b})"


@pytest.mark.parametrize(
    "tables",
    [
        ("CREATE TABLE counted (id int PRIMARY KEY, note text)",),
        (
            "CREATE TABLE counted (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)",
            PARTS.format(n=0, a=0, b=50_000),
            PARTS.format(n=1, a=50_000, b=ROWS),
        ),
    ],
    ids=["plain", "of partitions"],
)
def test_before_the_server_has_counted(postgres: PostgresServer, tables: tuple[str, ...]) -> None:
    import psycopg

    with psycopg.connect(f"{postgres.dsn} dbname=postgres") as connection:
        for command in tables:
            connection.execute(command.encode())
        connection.execute("INSERT INTO counted SELECT g, 'note ' || g FROM generate_series(0, %s) g", [ROWS - 1])
        found = table_state(connection, Postgres("postgres.public.counted", {"id": "INT"}, "id"))
        assert found is not None and limits.INTERPRETED_ROWS < found.rows < 4 * ROWS
        connection.rollback()
