"""A database that a test makes and fills, and the nodes that read its tables, run by the real commit protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast
from uuid import uuid4

import psycopg

from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.postgres.connection import Database
from rivermeet.infra.postgres.state import SlotState, slot_state
from rivermeet.infra.sources.postgres.ingest import PostgresStep
from rivermeet.infra.sources.postgres.slot import PipelineSlot
from rivermeet.pipelines import Node, Postgres
from tests.infra.sources.place import Place
from tests.servers.postgres import PostgresServer


@dataclass
class Base(Place):
    """One test's database and tables."""

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

    def source_step(self, node: Node, context: EpochContext) -> PostgresStep:
        lock = str(self.world.root / "locks" / "slot.lock")
        slot = PipelineSlot(Database(self.server.dsn, self.name), context.log, lock, node.pipeline.name)
        landing = self.world.root / "landing" / node.name
        return PostgresStep(node, context.paths(node), context.log, slot, landing)

    resnapshot = Place.rebuild

    def slot(self, node: Node) -> SlotState | None:
        """The pipeline's slot, as the server has it."""
        line = self.step(node).slot.line()
        return None if line is None else slot_state(self.client, line.slot)

    def slots(self) -> int:
        """How many slots the database has."""
        return self.ask(f"SELECT count(*) FROM pg_replication_slots WHERE database = '{self.name}'")[0][0]

    def records(self, node: Node) -> list[tuple[Any, ...]]:
        """Key and value (None: a tombstone) of each record, in order."""
        rows = sorted(self.world.rows(node), key=lambda row: (row["epoch"], row["partition"], row["offset"]))
        return [
            (tuple(row["key"].values()), None if row["value"] is None else tuple(row["value"].values())) for row in rows
        ]

    def same(self, node: Node, query: str) -> None:
        """Check that the folded table has the rows of a query in the database."""
        assert self.folded(node) == sorted(self.ask(query), key=repr)
