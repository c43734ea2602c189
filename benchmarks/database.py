"""``make bench``: a table of PostgreSQL as it stands, and changes of it, to judged changelogs.

    python -m benchmarks.database [--rows N] [--changes N]

| row | seconds from … to … |
|---|---|
| snapshot | plan of the first epoch, without a slot, to its judged changelog |
| changes | plan of the next epoch to its judged changelog; updates in transactions of a thousand |

The server is one of its own, on the loopback, that does not wait for the disk. A first run of 200,000 rows, enough for
compiled queries, warms the engine and is not printed. A line of JSON is added to ``bench/database.jsonl`` in the home.
"""

from __future__ import annotations

import time
from typing import Any, cast

import click
import psycopg

from benchmarks.stored import results_file, store
from benchmarks.topics import time_epoch
from rivermeet.assets.bench.run import fresh_project
from rivermeet.assets.cli.show.rows import table
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Pipeline, Postgres
from tests.servers.postgres import NoPostgresError, running

WARM_UP, AT_ONCE = 200_000, 1_000
SCHEMA = {"id": "INT", "name": "STRING", "amount": "DECIMAL(12,2)", "at": "TIMESTAMP", "n": "INT"}


def measure(settings: Settings, dsn: str, database: str, rows: int, changes: int) -> dict[str, float]:
    """Seconds of the snapshot and of the changes, in a database of their own."""
    project = fresh_project(settings, "database", postgres=dsn)
    node = Pipeline("bench_database").table("orders", Postgres(f"{database}.public.orders", SCHEMA, "id"))
    with psycopg.connect(f"{dsn} dbname=postgres", autocommit=True) as client:
        client.execute(cast(Any, f"CREATE DATABASE {database}"))
    with psycopg.connect(f"{dsn} dbname={database}", autocommit=True) as client:
        client.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, name text, amount numeric(12,2), at timestamptz, n int)"
        )
        made = "INSERT INTO orders SELECT g, 'order number ' || g, g * 0.25, now(), 0 FROM generate_series(1, %s) g"
        client.execute(made, [rows])
        found = {f"snapshot of {rows:,} rows": time_epoch(project, node, rows)}
        for first in range(0, changes, AT_ONCE):
            client.execute(
                "UPDATE orders SET n = n + 1 WHERE id > %s AND id <= %s", [first % rows, first % rows + AT_ONCE]
            )
        return {**found, f"{changes:,} changes": time_epoch(project, node, changes)}


@click.command()
@click.option("--rows", default=1_000_000, show_default=True)
@click.option("--changes", default=200_000, show_default=True)
def main(rows: int, changes: int) -> None:
    """Warm up, measure, print."""
    settings = Settings.from_env()
    try:
        with running() as server:
            measure(settings, server.dsn, "warm", WARM_UP, WARM_UP)
            seconds = measure(settings, server.dsn, "bench", rows, changes)
    except NoPostgresError as error:
        raise click.ClickException(str(error)) from None
    click.echo(table(["PostgreSQL to a judged changelog", "seconds"], [[n, f"{s:.1f}"] for n, s in seconds.items()]))
    store(results_file(settings, "database"), [{"at": int(time.time()), "seconds": seconds}])


if __name__ == "__main__":
    main()
