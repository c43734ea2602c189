"""A process that runs one epoch of a foreign-key join and may be told to die on the way (``RIVERMEET_CRASH_AT``)."""

from __future__ import annotations

import sys
from pathlib import Path

from infra.session import new_session, session
from infra.settings import Settings
from pipelines import Table
from tests.joins.batch import TYPES, two_tables
from tests.world import World

ROWS = {"l": "left.v", "r": "right.v"}


def joined() -> Table:
    """Left rows with the right row that their value names."""
    left, right = two_tables()
    return left.left_join(right, "ab", foreign_key="v", select=ROWS)


def world(root: Path, settings: Settings) -> World:
    """The tables below ``root``."""
    spark = session(settings)
    return World(root, spark, new_session(spark), {"a": TYPES, "b": TYPES})


if __name__ == "__main__":
    world(Path(sys.argv[1]), Settings.from_env()).run(joined())
