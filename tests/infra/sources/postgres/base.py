"""A database that a test makes and fills, and the nodes that read its tables, run by the real commit protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast
from uuid import uuid4

import psycopg

from rivermeet.assets.epoch.run import run_node
from rivermeet.infra.delta.io import read
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.epochs.stages.plan import Rebuild
from rivermeet.infra.epochs.step import EpochResult
from rivermeet.infra.postgres.connection import Database
from rivermeet.infra.postgres.server import PostgresServer
from rivermeet.infra.postgres.state import SlotState, slot_state
from rivermeet.infra.sources.postgres.ingest import PostgresStep
from rivermeet.infra.sources.postgres.slot import PipelineSlot
from rivermeet.pipelines import Node, Postgres
from tests.world import World


@dataclass
class Base:
    """One test's database and tables."""

    world: World
    server: PostgresServer
    name: str = field(default_factory=lambda: f"shop_{uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        with psycopg.connect(f"{self.server.dsn} dbname=postgres", autocommit=True) as connection:
            connection.execute(cast(Any, f"CREATE DATABASE {self.name}"))

    def close(self) -> None:
        """Leave the server as it was."""
        self.client.close()
        with psycopg.connect(f"{self.server.dsn} dbname=postgres", autocommit=True) as connection:
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            connection.execute(ended, [self.name])
            self.drop_slots(connection)
            connection.execute(cast(Any, f"DROP DATABASE {self.name} WITH (FORCE)"))

    def drop_slots(self, connection: psycopg.Connection[Any] | None = None) -> None:
        (connection or self.client).execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = %s AND NOT temporary",
            [self.name],
        )

    @cached_property
    def client(self) -> psycopg.Connection[Any]:
        """The client that changes the database."""
        return self.connect()

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(f"{self.server.dsn} dbname={self.name}", autocommit=True)

    def do(self, *statements: str) -> None:
        """Statements, each in a transaction of its own."""
        for statement in statements:
            self.client.execute(cast(Any, statement))

    def transaction(self, *statements: str) -> None:
        """Statements in one transaction."""
        with self.client.transaction():
            self.do(*statements)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        return self.client.execute(cast(Any, query)).fetchall()

    def table(self, table: str, schema: Mapping[str, str], key: str | tuple[str, ...] = "id") -> Postgres:
        """A table as it is declared."""
        return Postgres(f"{self.name}.public.{table}", schema, key)

    def step(self, node: Node) -> PostgresStep:
        context = self.world.runner(node.pipeline.name)
        lock = str(self.world.root / "locks" / "slot.lock")
        database = Database(self.server.dsn, self.name)
        slot = PipelineSlot(database, context.log, lock, node.pipeline.name)
        landing = self.world.root / "landing" / node.name
        return PostgresStep(node, context.paths(node).changelog, context.log, slot, landing)

    def run(self, node: Node, **changes: Any) -> EpochResult | None:
        """One epoch of a node; ``changes`` are of its step."""
        step: Any = self.step(node) if node.source is not None else self.world.step(node)
        context = self.world.runner(node.pipeline.name)
        return run_node(context, replace(step, log=context.log, **changes)).result

    def resnapshot(self, node: Node) -> EpochResult | None:
        return run_node(self.world.runner(node.pipeline.name), self.step(node), rebuild=Rebuild()).result

    def run_all(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.run(node)

    def slot(self, node: Node) -> SlotState | None:
        """The pipeline's slot, as the server has it."""
        line = self.step(node).slot.line()
        return None if line is None else slot_state(self.client, line.slot)

    def slots(self) -> int:
        """How many slots the database has."""
        return self.ask(f"SELECT count(*) FROM pg_replication_slots WHERE database = '{self.name}'")[0][0]

    def folded(self, node: Node) -> list[tuple[Any, ...]]:
        """The folded table's rows, key first, in order."""
        rows = self.world.rows(node, "table")
        return sorted((tuple(v for name, v in row.items() if not name.startswith("_")) for row in rows), key=repr)

    def records(self, node: Node) -> list[tuple[Any, ...]]:
        """Key and value (None: a tombstone) of each record, in order."""
        rows = sorted(self.world.rows(node), key=lambda row: (row["epoch"], row["partition"], row["offset"]))
        return [
            (tuple(row["key"].values()), None if row["value"] is None else tuple(row["value"].values())) for row in rows
        ]

    def same(self, node: Node, query: str) -> None:
        """Check that the folded table has the rows of a query in the database."""
        assert self.folded(node) == sorted(self.ask(query), key=repr)

    def letters(self, node: Node) -> list[dict[str, Any]]:
        """All dead letters that ever were."""
        path = self.world.runner(node.pipeline.name).paths(node).dead_letter
        if open_table(path) is None:
            return []
        rows = [cast(dict[str, Any], row.asDict()) for row in read(self.world.spark, path).collect()]
        return sorted(rows, key=lambda row: (row["epoch"], row["line"], row["position"]))
