"""``make demo-cdc``: a database under random transactions, joined while they go on, and compared with its own join.

    at 0/2A31F70, after 512 transactions   equal: 231 rows here and in the database

A PostgreSQL server runs for as long as it lasts, in a folder that is removed at the end. At each comparison no
transaction commits for a moment: the database's own join is asked, and the place in its log where the next epoch ends
is fixed. Then the shop goes on, and the pipeline reads up to there. Held by ``tests/demos/test_cdc.py``.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import psycopg

from rivermeet.assets.cli.terminal import project_here
from rivermeet.assets.defs.runs import run_pipeline
from rivermeet.assets.project import Project
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.postgres.wal_range import WalRange, lsn_text
from rivermeet.pipelines import Pipeline, Postgres
from tests.demos.beside import beside
from tests.demos.shop import JOINED, TABLES, Shop
from tests.servers.postgres import NoPostgresError, PostgresServer, running

CLIENTS, COMPARISONS = 4, 4
BETWEEN_SECONDS = 3.0
"""How long the shop goes on between two comparisons, at least."""


def shop_pipeline() -> Pipeline:
    """Orders with the customers that they are of."""
    made = Pipeline("shop")
    orders = made.table(
        "orders", Postgres("shop.public.orders", {"id": "INT", "customer": "INT", "amount": "DECIMAL(12,2)"}, "id")
    )
    customers = made.table(
        "customers", Postgres("shop.public.customers", {"id": "INT", "name": "STRING", "note": "STRING"}, "id")
    )
    select = {"customer": "left.customer", "amount": "left.amount", "name": "right.name", "note": "length(right.note)"}
    orders.left_join(customers, "named", foreign_key="customer", select=select)
    return made


def demonstrated(
    project: Project, comparisons: int = COMPARISONS, seconds: float = BETWEEN_SECONDS, seed: int = 7
) -> bool:
    """Join while the shop goes on, and compare; whether all was green and equal."""
    with running() as server, beside(project, "demo-cdc", postgres=server.dsn, fold="run") as own:
        with psycopg.connect(f"{server.dsn} dbname=postgres", autocommit=True) as client:
            client.execute("CREATE DATABASE shop")
        asks = _client(server)
        for statement in TABLES:
            asks.execute(cast(Any, statement))
        own.say("a PostgreSQL server runs here, with a shop of orders and customers that never closes")
        shop = Shop([_client(server) for _ in range(CLIENTS)], random.Random(seed))
        with shop.open(), asks:
            return all(_compared(own, shop, asks, seconds) for _ in range(comparisons))


def _client(server: PostgresServer) -> psycopg.Connection[Any]:
    return psycopg.connect(f"{server.dsn} dbname=shop", autocommit=True)


def _compared(project: Project, shop: Shop, asks: psycopg.Connection[Any], seconds: float) -> bool:
    """Run the pipeline up to a place in the log, and compare its join with the database's own of that place."""
    pipeline = shop_pipeline()
    named = pipeline.node("named")
    first = last_note(project.context(pipeline).paths(named).changelog) is None
    # The first run reads the tables as they stand; from then on there are places that can be fixed.
    if first and not run_pipeline(project, pipeline):
        return False
    time.sleep(seconds)
    with shop.without_commits():
        wanted = Counter(tuple(row) for row in asks.execute(JOINED).fetchall())
        place, committed = _fixed(project, pipeline), shop.committed
    if not run_pipeline(project, pipeline):
        return False
    found = Counter(_rows(project, pipeline))
    more, less = (found - wanted).total(), (wanted - found).total()
    equal = not more and not less and bool(wanted)
    same = f"equal: {found.total():,} rows here and in the database"
    what = same if equal else f"UNEQUAL: {more:,} rows here alone, {less:,} in the database alone"
    project.say(f"  at {place}, after {committed:,} transactions   {what}")
    return equal


def _fixed(project: Project, pipeline: Pipeline) -> str:
    """Fix the place in the log where the next epochs of both tables end."""
    step = project.source_step(pipeline.node("orders"))
    found = last_note(project.context(pipeline).paths(step.node).changelog)
    assert found is not None
    plan = step.plan(found[1], found[0], found[1].epoch + 1)
    assert plan is not None and isinstance(plan.reads, WalRange), "the shop is never idle"
    return lsn_text(plan.reads.position)


def _rows(project: Project, pipeline: Pipeline) -> Iterator[tuple[Any, ...]]:
    path = project.context(pipeline).paths(pipeline.node("named")).table
    for row in read(project.sessions.open(), path).select("id", "customer", "amount", "name", "note").collect():
        yield tuple(row)


def main() -> None:
    """`python -m tests.demos.cdc`."""
    try:
        sys.exit(0 if demonstrated(project_here()) else 1)
    except NoPostgresError as error:
        sys.exit(f"rivermeet: {error}")


if __name__ == "__main__":
    main()
