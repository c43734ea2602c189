"""A process that does one thing to one node and may be made to die on the way (``RIVERMEET_CRASH_AT``).

``join`` is one epoch of a foreign-key join, ``chained`` one of a join with its result, ``ingest`` one of a file source
with dead letters, ``rebuild`` the join from its first record, ``maintenance`` that of its pipeline.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rivermeet.assets.epoch.run import run_node
from rivermeet.infra import crash
from rivermeet.infra.delta.io import read
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.table_care import Retention
from rivermeet.infra.engine.session import new_session, session
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.maintenance import maintain
from rivermeet.infra.epochs.step import EpochResult, Step
from rivermeet.infra.settings import PROJECT, Settings
from rivermeet.infra.sources.files.ingest import IngestStep
from rivermeet.pipelines import Files, Node, Pipeline, Table
from tests.crashes import How, crashing_at, doomed
from tests.joins.epochs.batch import TYPES, two_tables
from tests.world import World

ROWS = {"l": "left.v", "r": "right.v"}
SIDES = ("late", "dead_letter", "memory")


def joined() -> Table:
    """Left rows with the right row that their value names."""
    left, right = two_tables()
    return left.left_join(right, "ab", foreign_key="v", select=ROWS)


def chained() -> Table:
    """The result of `joined`, joined with its own right table."""
    first = joined()
    right = first.join_spec.right if first.join_spec is not None else None
    assert isinstance(right, Table)
    select = {"l": "left.l", "r": "right.v"}
    return first.left_join(right, "again", foreign_key="l", select=select)


def ingested() -> Table:
    """A table read from lines of JSON; up to half of them may be bad."""
    files = Files("people/*.jsonl", "json", {"k": "STRING", "v": "STRING", "ts": "BIGINT"})
    return Pipeline("read").table("people", files, key=["k"], timestamp="ts", max_bad_share=0.5, partitions=2)


@dataclass
class EngineWorld(World):
    """A world whose runs end what a killed one has left going on the warm engine."""

    engine: Path | None = None

    def runner(self, pipeline: str) -> EpochContext:
        return replace(super().runner(pipeline), engine=self.engine)


def world(root: Path, settings: Settings) -> World:
    """The tables below ``root``."""
    spark = session(settings)
    engine = settings.engine_home if settings.engine == "auto" else None
    return EngineWorld(root, spark, new_session(spark), {"a": TYPES, "b": TYPES}, as_sources_do=True, engine=engine)


def data(target: World) -> Path:
    """The files that a world reads: those of its neighbours too, so that both find the same names."""
    return target.root.parent / "data"


def step(target: World, node: Node) -> Step:
    """The node's part in the protocol."""
    runner = target.runner(node.pipeline.name)
    if node.operation is not None:
        return target.step(node)
    return IngestStep(
        node=node,
        paths=runner.paths(node),
        log=runner.log,
        data=str(data(target)),
        session=lambda: target.spark,
        landing=target.root / "landing" / node.name,
    )


def once(target: World, node: Node) -> EpochResult | None:
    """One epoch of a node; None where nothing is new."""
    return run_node(target.runner(node.pipeline.name), step(target, node)).result


def rebuilt(target: World) -> None:
    """The join from its first record."""
    target.rebuild(joined())


def maintained(target: World) -> None:
    """Whatever can be put together or removed."""
    pipeline = joined().pipeline
    maintain(target.runner(pipeline.name), pipeline, lambda: target.spark, Retention(versions=1, small_files=1))


ACTS: Mapping[str, Callable[[World], Any]] = {
    "join": lambda target: once(target, joined()),
    "chained": lambda target: once(target, chained()),
    "ingest": lambda target: once(target, ingested()),
    "rebuild": rebuilt,
    "maintenance": maintained,
}


def deliver(file: Path, lines: Iterable[Mapping[str, Any] | str]) -> None:
    """A file of JSON, whole or not at all; text goes in as it stands."""
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_name(f".{file.name}.part")
    half.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    half.replace(file)


def side_rows(target: World, node: Node) -> dict[str, Counter[str]]:
    """Rows of the node's side tables and how often each stands there."""
    paths = target.runner(node.pipeline.name).paths(node)
    found: dict[str, Counter[str]] = {}
    for side in SIDES:
        path = getattr(paths, side)
        if open_table(path) is not None:
            rows = read(target.spark, path).drop("epoch").collect()
            found[side] = Counter(repr(row) for row in rows)
    return found


def die(target: World, settings: Settings, what: str, point: str, by: How = "SIGKILL") -> None:
    """Do ``what`` and end at ``point``: in a process of its own that is killed, or here."""
    if by == "raised":
        with doomed(target.spark) as spark, doomed(target.spark) as fold_session, crashing_at(point):
            ACTS[what](replace(target, spark=spark, fold_session=fold_session))
        return
    env = os.environ | settings.environ() | {crash.SETTING: point}
    command = [sys.executable, "-m", "tests.infra.epochs.killed", str(target.root), what]
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, f"{what} was not killed at '{point}': {done.stderr}"


if __name__ == "__main__":
    ACTS[sys.argv[2]](world(Path(sys.argv[1]), Settings.from_env()))
