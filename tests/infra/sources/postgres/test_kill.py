"""A run that is killed at any point: the next one ends as if nothing had been, and leaves no slot behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rivermeet.infra import crash
from rivermeet.infra.settings import PROJECT, Settings
from rivermeet.pipelines import Pipeline, Table
from tests.crashes import crashing_at
from tests.infra.sources.postgres.base import Base
from tests.reliability import survived

pytestmark = pytest.mark.slow
T = "SELECT id, n FROM t"
EPOCH = ("planned", "landed", "computed", "committed", "recorded", "merged")


def made(base: Base) -> Table:
    base.do("CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    return Pipeline("shop").table("t", base.table("t", {"id": "INT", "n": "INT"}), partitions=1)


@pytest.mark.parametrize("point", ["slot-named", "slot-made", "snapshot-noted", *EPOCH])
def test_while_the_table_is_read_as_it_stands(base: Base, point: str) -> None:
    node = made(base)
    with crashing_at(point):
        base.run(node)
    base.do("UPDATE t SET n = 3 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (4, 4)")
    base.run(node)
    base.run(node)
    base.same(node, T)
    assert base.slots() == 1
    epochs = {row["epoch"] for row in base.world.rows(node)}
    assert len(epochs) <= 2, "no epoch was done twice"
    survived("killed while a snapshot is taken", "the next run drops what is left of the slot, or goes on", 1)


@pytest.mark.parametrize("point", [*EPOCH, "advanced"])
def test_while_changes_are_read(base: Base, point: str) -> None:
    node = made(base)
    base.run(node)
    base.do("UPDATE t SET n = 3 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (4, 4)")
    if point == "advanced":
        base.run(node)
        base.do("UPDATE t SET n = 30 WHERE id = 1")
    with crashing_at(point):
        base.run(node)
    base.do("UPDATE t SET n = 5 WHERE id = 4")
    base.run(node)
    base.run(node)
    base.same(node, T)
    records = base.records(node)[2:]
    changes = [((1,), (3,)), ((2,), None), ((4,), (4,))]
    changes += [((1,), (30,))] if point == "advanced" else []
    assert records == [*changes, ((4,), (5,))], "each change once"
    survived("killed while changes are read", "each change is read once", 1)


@pytest.mark.parametrize("point", ["slot-made", "landed"])
def test_by_sigkill(base: Base, point: str) -> None:
    """The process is gone, with its connections."""
    node = made(base)
    root = base.world.root
    command = [sys.executable, "-m", "tests.infra.sources.postgres.reading", str(root), base.server.dsn, base.name]
    env = {**os.environ, **settings_env(root), crash.SETTING: point}
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    base.run(node)
    base.same(node, T)
    assert base.slots() == 1
    survived("killed while a snapshot is taken", "the next run drops what is left of the slot, or goes on", 1)


def settings_env(root: Path) -> dict[str, str]:
    from tests.conftest import HOME

    return Settings.from_env(dict(os.environ) | {"RIVERMEET_HOME": os.environ[HOME]}).environ()
