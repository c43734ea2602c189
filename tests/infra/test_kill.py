"""SIGKILL at every step of the commit protocol: the next run ends in the same rows as an undisturbed one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infra import crash
from infra.settings import PROJECT, Settings
from tests.infra.killed import joined, world
from tests.world import Record, World

pytestmark = [pytest.mark.both_engines, pytest.mark.timeout(600)]


def deliveries() -> list[tuple[list[Record], list[Record]]]:
    """One per crash point, left and right: inserts, moves, deletes, a right row that comes late and goes again."""
    return [
        ([(("p",), ("f",), 1, 0), (("q",), ("g",), 2, 1)], [(("f",), ("F",), 1, 0)]),
        ([(("p",), ("g",), 3, 0)], []),
        ([], [(("g",), ("G",), 4, 1)]),
        ([(("q",), None, 5, 1), (("r",), ("f",), 5, 2)], [(("f",), ("F2",), 6, 0)]),
        ([(("q",), ("f",), 7, 1)], [(("g",), None, 8, 1)]),
    ]


def publish(target: World, delivery: tuple[list[Record], list[Record]]) -> None:
    join = joined().join_spec
    assert join is not None
    target.publish(join.left, delivery[0])
    target.publish(join.right, delivery[1])


def die(root: Path, settings: Settings, point: str) -> None:
    """Run one epoch in a process of its own, killed at ``point``."""
    env = os.environ | settings.environ() | {crash.SETTING: point}
    command = [sys.executable, "-m", "tests.infra.killed", str(root)]
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.slow
def test_killed_at_every_point_of_the_protocol(tmp_path: Path, settings: Settings) -> None:
    disturbed, undisturbed = world(tmp_path / "killed", settings), world(tmp_path / "whole", settings)
    node = joined()
    assert len(deliveries()) == len(crash.POINTS)
    for point, delivery in zip(crash.POINTS, deliveries(), strict=True):
        publish(disturbed, delivery)
        publish(undisturbed, delivery)
        undisturbed.run(node)
        die(disturbed.root, settings, point)
        # What the kill left behind is finished or found finished, and then nothing is new.
        disturbed.run(node)
        assert disturbed.run(node) is None, point
        assert disturbed.rows(node) == undisturbed.rows(node), point
        assert disturbed.rows(node, "table") == undisturbed.rows(node, "table"), point


def test_killed_again_and_again_before_the_commit(tmp_path: Path, settings: Settings) -> None:
    """The plan that was logged first is the one that runs, also when more has arrived since."""
    target, node = world(tmp_path / "killed", settings), joined()
    publish(target, deliveries()[0])
    die(target.root, settings, "planned")
    publish(target, deliveries()[1])
    die(target.root, settings, "sides-written")
    result = target.run(node)
    assert result is not None
    assert {side: part.records for side, part in result.plan.inputs.items()} == {"left": 2, "right": 1}
    second = target.run(node)
    assert second is not None
    assert second.plan.epoch == 2
    assert [row["epoch"] for row in target.rows(node)] == [1, 1, 1, 2]
