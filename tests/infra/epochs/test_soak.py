"""Killed at any time, for minutes: no row is lost, none is doubled, and no run fails but by its own death.

Two workers run the pipeline, one of them is killed, another takes its place. The warm engine goes on with what a killed
client asked of it, and the worker that waited for its lock begins at once: a commit of the dead may land among those of
the living. A kill at a named point does not show that.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rivermeet.infra.delta.io import notes
from rivermeet.infra.settings import PROJECT, Settings
from rivermeet.pipelines import Node
from tests.infra.epochs.killed import data, once, world
from tests.infra.epochs.soak import DRAIN, KEYS, Feed, contents, paid, pipeline
from tests.reliability import survived
from tests.world import World

FAULT = "kill -9 at a random time, warm engine"


@dataclass
class Soaked:
    """What a loop of kills saw."""

    kills: int = 0
    errors: list[str] = field(default_factory=list)


@dataclass
class Workers:
    """Processes over the tables of one world."""

    target: World
    settings: Settings
    running: list[tuple[subprocess.Popen[bytes], Path]] = field(default_factory=list)
    started: int = 0

    def start(self, until: str) -> None:
        """Another one; what it complains of goes to a file."""
        complaints = self.target.root / f"worker-{self.started}"
        command = [sys.executable, "-m", "tests.infra.epochs.soak", str(self.target.root), until]
        env = os.environ | self.settings.environ()
        with complaints.open("wb") as out:
            process = subprocess.Popen(command, cwd=PROJECT, env=env, stdout=subprocess.DEVNULL, stderr=out)
        self.running.append((process, complaints))
        self.started += 1

    def kill(self, which: int, seen: Soaked) -> None:
        """SIGKILL for one; that it had died before is an error."""
        process, complaints = self.running.pop(which)
        process.kill()
        if process.wait() == -signal.SIGKILL:
            seen.kills += 1
        else:
            seen.errors.append(complaints.read_text())

    def finish(self, seen: Soaked) -> None:
        """One alone, until nothing is new."""
        self.start(DRAIN)
        process, complaints = self.running[-1]
        if process.wait(timeout=900):
            seen.errors.append(complaints.read_text())
        self.running.clear()


def soak(target: World, settings: Settings, feed: Feed, seconds: float) -> Soaked:
    """Deliver files and kill workers at random moments, as long as that; then let one finish."""
    seen, rng, workers = Soaked(), random.Random(feed.seed), Workers(target, settings)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            while len(workers.running) < 2:
                workers.start("killed")
            # Some die while they start.
            for _ in range(rng.randint(1, 4)):
                time.sleep(rng.uniform(0, 4))
                if rng.random() < 0.5:
                    feed.deliver()
            workers.kill(rng.randrange(2), seen)
        workers.kill(0, seen)
        feed.close()
        workers.finish(seen)
    finally:
        for process, _ in workers.running:
            process.kill()
            process.wait()
    return seen


def dense(target: World, node: Node) -> int:
    """How many epochs were committed: they, and the offsets of each partition, have neither a gap nor a repeat."""
    offsets: dict[int, list[int]] = {}
    for row in target.rows(node):
        offsets.setdefault(row["partition"], []).append(row["offset"])
    assert all(found == list(range(len(found))) for found in offsets.values()), node.name
    epochs = [note.epoch for _, note in notes(target.runner(node.pipeline.name).paths(node).changelog)]
    assert epochs == list(range(len(epochs), 0, -1)), node.name
    return len(epochs)


def soaked(tmp_path: Path, settings: Settings, seconds: float, seed: int) -> None:
    """One loop, and all that must hold after it."""
    seconds = float(os.environ.get("RIVERMEET_SOAK_SECONDS", seconds))
    disturbed, undisturbed = world(tmp_path / "killed", settings), world(tmp_path / "whole", settings)
    feed = Feed(data(disturbed), seed)
    seen = soak(disturbed, settings, feed, seconds)
    nodes, epochs = {node.name: node for node in pipeline().stored}, 0
    lost: Counter[str] = Counter()
    doubled: Counter[str] = Counter()
    for name, node in nodes.items():
        once(undisturbed, node)
        epochs += dense(disturbed, node)
        expected, found = contents(undisturbed, node), contents(disturbed, node)
        assert set(found) == set(expected), name
        for table in expected:
            lost[f"{name}.{table}"] = (expected[table] - found[table]).total()
            doubled[f"{name}.{table}"] = (found[table] - expected[table]).total()
    survived(FAULT, "kills survived", seen.kills)
    survived(FAULT, "epochs committed", epochs)
    survived(FAULT, "rows lost", lost.total())
    survived(FAULT, "rows doubled", doubled.total())
    survived(FAULT, "runs that failed", len(seen.errors))
    summary = f"seed {seed}: {seen.kills} kills, {epochs} epochs, {feed.delivered} deliveries"
    print(summary)
    assert not seen.errors, f"{summary}; {len(seen.errors)} runs failed:\n" + "\n".join(seen.errors)
    assert not +lost, f"{summary}; lost {+lost}"
    assert not +doubled, f"{summary}; doubled {+doubled}"
    assert seen.kills >= seconds / 30, summary

    by_reference = paid(disturbed, nodes)
    made = [
        (row["partition"], row["key"]["id"], (row["value"]["l"], row["value"]["r"]), row["timestamp"])
        for row in sorted(disturbed.rows(nodes["paid"]), key=lambda row: (row["partition"], row["offset"]))
        if row["key"]["id"] in KEYS
    ]
    assert made == by_reference, summary
    table = {row["id"]: (row["l"], row["r"]) for row in disturbed.rows(nodes["members"], "table") if row["id"] in KEYS}
    assert table == feed.members(), summary
    assert len(made) > 10 and len(table) > 5, summary


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_two_minutes_of_kills(tmp_path: Path, settings: Settings) -> None:
    soaked(tmp_path, settings, seconds=120, seed=1)


@pytest.mark.bench
@pytest.mark.timeout(3600)
def test_ten_minutes_of_kills(tmp_path: Path, settings: Settings) -> None:
    soaked(tmp_path, settings, seconds=600, seed=2)
