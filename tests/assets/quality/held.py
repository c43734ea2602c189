"""A till whose amounts must not be negative, and a process that decides about an epoch of it and may be killed.

The rule is one more entry among the invariants, as it would stand in `expectations.invariants.ALL`. Files, tables,
engine and epochs are real.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession

from rivermeet.assets.epoch.materialise import materialise
from rivermeet.assets.project import Project
from rivermeet.assets.refused.states import HeldState, decide, states
from rivermeet.expectations import invariants
from rivermeet.expectations.invariant import ANY, Invariant
from rivermeet.infra import crash
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.settings import PROJECT, Settings
from rivermeet.pipelines import Files, Node, Pipeline
from tests.crashes import How, crashing_at, doomed

FILES = Files("sales/*.csv", "csv", {"id": "STRING", "n": "INT", "at": "BIGINT"})
TILL = Pipeline("till")
sales = TILL.stream("sales", FILES, key=["id"], value=["n"], timestamp="at", partitions=1)
prices = TILL.table("prices", FILES, key=["id"], value=["n"], timestamp="at", partitions=1)
billed = sales.filter("value.n <> 0", "billed")


def rule(id: str, wrong: str) -> Invariant:
    """A blocking invariant of every node that has an amount."""
    return Invariant(
        id=id,
        sentence=f"No amount is {wrong}.",
        source="the owner of the till, amounts",
        families=ANY,
        profiles=None,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=lambda node: f"SELECT key, value.n FROM {{rows}} WHERE value.n {wrong}",
    )


NOT_NEGATIVE = rule("not_negative", "< 0")
ALL = invariants.ALL


def judge_by(patched: pytest.MonkeyPatch, *rules: Invariant) -> None:
    """Let these rules be among the declared ones."""
    patched.setattr(invariants, "ALL", (*ALL, *rules))


class Till(Project):
    """A project with a home of its own on the engine of all tests."""

    def deliver(self, name: str, text: str) -> None:
        folder = Path(self.settings.data) / "sales"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.csv").write_text(f"id,n,at\n{text}")

    def records(self, node: Node) -> list[tuple[Any, ...]]:
        """Epoch, offset, key and amount of every record."""
        found = last_note(self.paths(node).changelog)
        if found is None:
            return []
        rows = read(self.sessions.open(), self.paths(node).changelog, found[0])
        return sorted(tuple(row) for row in rows.select("epoch", "offset", "key.id", "value.n").collect())

    def quarantined(self, node: Node) -> list[dict[str, Any]]:
        rows = read(self.sessions.open(), self.paths(node).quarantine).collect()
        return sorted((row.asDict() for row in rows), key=lambda row: (row["epoch"], row["row"]))

    def state(self, node: Node) -> HeldState:
        """That of the last epoch that was refused."""
        return states(self.context(TILL), node)[-1]


@dataclass(eq=False)
class Doomed(Sessions):
    """One session for all: that of what ends in it."""

    spark: SparkSession | None = None

    def open(self) -> SparkSession:
        assert self.spark is not None
        return self.spark


def till(home: Path, engine: Settings) -> Till:
    """The till in ``home``."""
    settings = replace(engine, home=home, tables=str(home / "tables"), data=str(home / "data"))
    return Till(settings, Sessions(engine), (TILL,))


def decided(target: Till, node: Node, epoch: int, how: Literal["release", "drop"]) -> None:
    """Decide about an epoch and carry it out."""
    decide(target.context(TILL), node, epoch, how, "ines")
    materialise(target, node, f"{how}-{epoch}")


def die(target: Till, node: Node, epoch: int, how: Literal["release", "drop"], point: str, by: How = "SIGKILL") -> None:
    """Decide and end at ``point``: in a process of its own that is killed, or here."""
    if by == "raised":
        with doomed(target.sessions.open()) as spark, crashing_at(point):
            decided(replace(target, sessions=Doomed(target.sessions.settings, spark=spark)), node, epoch, how)
        return
    env = os.environ | target.sessions.settings.environ() | {crash.SETTING: point}
    command = [sys.executable, "-m", "tests.assets.quality.held", str(target.settings.home), node.name, str(epoch), how]
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, f"{how} was not killed at '{point}': {done.stderr}"


if __name__ == "__main__":
    judge_by(pytest.MonkeyPatch(), NOT_NEGATIVE)
    home, name, epoch, how = sys.argv[1:]
    assert how in ("release", "drop")
    decided(till(Path(home), Settings.from_env()), TILL.node(name), int(epoch), how)
