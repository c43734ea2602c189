"""Tables of PostgreSQL as a kind of source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rivermeet.infra.postgres.wal_range import WalRange
from rivermeet.infra.sources.kind import SourceContext, SourceKind
from rivermeet.infra.sources.standing import TABLE_FRESHNESS
from rivermeet.pipelines import Node, Postgres

if TYPE_CHECKING:
    from rivermeet.infra.sources.postgres.ingest import PostgresStep


def step(context: SourceContext, node: Node) -> PostgresStep:
    """A node's part in an epoch."""
    from rivermeet.infra.postgres.connection import Database
    from rivermeet.infra.sources.postgres.ingest import PostgresStep
    from rivermeet.infra.sources.postgres.slot import PipelineSlot

    assert node.source is not None
    database = Database(context.settings.postgres, node.source.postgres.database)
    lock = Path(context.epochs.log.lock).with_name(f".{database.name}.lock")
    slot = PipelineSlot(database, context.epochs.log, str(lock), node.pipeline.name)
    return PostgresStep(node, context.epochs.paths(node), context.epochs.log, slot, context.landing(node))


KIND = SourceKind("table of PostgreSQL", Postgres, WalRange, step, TABLE_FRESHNESS, has_snapshots=True)
