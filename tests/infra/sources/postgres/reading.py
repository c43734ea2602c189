"""A process that reads a table for one epoch, to be killed on the way (``RIVERMEET_CRASH_AT``).

python -m tests.infra.sources.postgres.reading ROOT DSN DATABASE
"""

from __future__ import annotations

import sys
from pathlib import Path

from rivermeet.assets.epoch.run import run_node
from rivermeet.infra.postgres.connection import Database
from rivermeet.infra.settings import Settings
from rivermeet.infra.sources.postgres.ingest import PostgresStep
from rivermeet.infra.sources.postgres.slot import PipelineSlot
from rivermeet.pipelines import Pipeline, Postgres
from tests.infra.epochs.killed import world


def main(root: str, dsn: str, database: str) -> None:
    """One epoch of the table that the tests of kills declare."""
    reads = Postgres(f"{database}.public.t", {"id": "INT", "n": "INT"}, "id")
    node = Pipeline("shop").table("t", reads, partitions=1)
    context = world(Path(root), Settings.from_env()).runner("shop")
    slot = PipelineSlot(Database(dsn, database), context.log, str(Path(root, "locks", "slot.lock")), "shop")
    run_node(context, PostgresStep(node, context.paths(node), context.log, slot, Path(root, "landing", "t")))


if __name__ == "__main__":
    main(*sys.argv[1:])
