"""Random transactions on two tables: after each run of both, each folded table is what the database had at the cut."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest

from rivermeet.pipelines import Pipeline
from tests.infra.sources.postgres.base import Base

pytestmark = pytest.mark.slow
LONG = 3000
IDENTITIES = {"customers": "DEFAULT", "orders": "FULL"}


def statement(draw: random.Random) -> str:
    """One change: of a key, of a value, of a value out of line, or of all rows."""
    table = draw.choice(list(IDENTITIES))
    id, other, n = draw.randrange(12), draw.randrange(12), draw.randrange(100)
    body = draw.choice(["NULL", "'short'", f"repeat('{draw.choice('abcdef')}', {LONG})"])
    kinds = [
        (6, f"INSERT INTO {table} VALUES ({id}, {n}, {body}) ON CONFLICT (id) DO UPDATE SET n = {n}"),
        (4, f"UPDATE {table} SET n = {n} WHERE id IN ({id}, {other})"),
        (2, f"UPDATE {table} SET body = {body} WHERE id = {id}"),
        (
            3,
            f"UPDATE {table} SET id = {other}, n = n + 1 WHERE id = {id} AND NOT EXISTS "
            f"(SELECT FROM {table} WHERE id = {other})",
        ),
        (3, f"DELETE FROM {table} WHERE id = {id}"),
        (0.3, f"TRUNCATE {table}"),
    ]
    return draw.choices([text for _, text in kinds], [weight for weight, _ in kinds])[0]


def transactions(draw: random.Random, clients: list[psycopg.Connection[Any]], count: int) -> None:
    """So many steps of clients whose transactions interleave; who would wait for another gives up."""
    for _ in range(count):
        client = draw.choice(clients)
        idle = client.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        try:
            if idle:
                client.execute("BEGIN")
            for _ in range(draw.randrange(1, 4)):
                client.execute(statement(draw))  # pyright: ignore[reportArgumentType, reportCallIssue]
            if draw.random() < 0.6:
                client.execute(draw.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
        except psycopg.Error:
            client.execute("ROLLBACK")


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.prove) for seed in (2, 3, 4))])
def test_folded_tables_are_the_database(base: Base, seed: int) -> None:
    draw = random.Random(seed)
    made = Pipeline("shop")
    nodes = []
    for name, identity in IDENTITIES.items():
        base.do(f"CREATE TABLE {name} (id int PRIMARY KEY, n int, body text)")
        base.do(
            f"ALTER TABLE {name} ALTER body SET STORAGE EXTERNAL", f"ALTER TABLE {name} REPLICA IDENTITY {identity}"
        )
        base.do(f"INSERT INTO {name} SELECT g, g, repeat('x', {LONG}) FROM generate_series(0, 5) g")
        reads = base.table(name, {"id": "INT", "n": "INT", "body": "STRING"})
        nodes.append(made.table(name, reads, partitions=2))
    clients = [base.connect() for _ in range(3)]
    for client in clients:
        client.execute("SET lock_timeout = '20ms'")
    base.run_all(nodes)
    for _ in range(4):
        transactions(draw, clients, 25)
        base.run_all(nodes)
        for node in nodes:
            base.same(node, f"SELECT id, n, body FROM {node.name}")
        positions = base.step(nodes[0]).positions()
        assert len(set(positions.values())) == 1
    assert sum(len(base.records(node)) for node in nodes) > 50
    for client in clients:
        client.close()
