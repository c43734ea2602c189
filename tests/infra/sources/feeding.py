"""A source over files of its own, read by the real commit protocol; and a process that retries its dead letters."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from rivermeet.assets.epoch.run import run_node
from rivermeet.infra.delta.io import read
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.engine.session import new_session, session
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.step import EpochResult
from rivermeet.infra.settings import Settings
from rivermeet.infra.sources.files.ingest import IngestStep
from rivermeet.pipelines import Files, Node, Pipeline
from tests.world import World

NUMBERS = {"id": "STRING", "n": "INT", "at": "BIGINT"}


@dataclass
class Fed:
    """A source node and the folder that it reads."""

    world: World
    node: Node
    folder: Path

    @property
    def runner(self) -> EpochContext:
        return self.world.runner(self.node.pipeline.name)

    @property
    def step(self) -> IngestStep:
        paths = self.runner.paths(self.node)
        root = str(self.folder.parent)
        landing = self.world.root / "landing" / self.node.name
        return IngestStep(self.node, paths, self.runner.log, root, lambda: self.world.spark, landing=landing)

    def deliver(self, **files: str) -> None:
        """Write files: ``a="…"`` is a.csv, ``a__json`` is a.json."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (self.folder / (name.replace("__", ".") if "__" in name else f"{name}.csv")).write_text(text)

    def run_or_none(self) -> EpochResult | None:
        return run_node(self.runner, self.step).result

    def run(self) -> EpochResult:
        result = self.run_or_none()
        assert result is not None, "nothing new"
        return result

    def retry(self) -> EpochResult | None:
        return run_node(self.runner, replace(self.step, retry=True)).result

    def declared(self, **changes: Any) -> Fed:
        """The same source by another declaration; ``schema`` is of its files."""
        assert self.node.source is not None
        files = replace(self.node.source.files, **{k: changes.pop(k) for k in ("schema", "null") if k in changes})
        origin = replace(self.node.source, reads=files, **changes)
        return replace(self, node=replace(self.node, origin=origin))

    def records(self) -> list[dict[str, Any]]:
        """All records, in order of epoch, partition and offset."""
        return self.world.rows(self.node)

    def letters(self) -> list[dict[str, Any]]:
        """All dead letters that ever were, open or not, in order of epoch, file and position."""
        path = self.runner.paths(self.node).dead_letter
        if open_table(path) is None:
            return []
        rows = [row.asDict() for row in read(self.world.spark, path).collect()]
        return sorted(rows, key=lambda row: (row["epoch"], row["file"], row["position"]))


def fed(
    spark: SparkSession, root: Path, schema: Mapping[str, str] | None = None, name: str = "s", **options: Any
) -> Fed:
    """A stream over ``root/data`` in one partition; its tables lie beside it."""
    value = None if schema else ["n"]
    given: dict[str, Any] = {
        "key": ["id"],
        "value": value,
        "timestamp": "at",
        "partitions": 1,
        "format": "csv",
    } | options
    files = Files("data/*", given.pop("format"), schema or NUMBERS)
    node = Pipeline("p").stream(name, files, **given)
    return Fed(World(root, spark, new_session(spark), {}), node, root / "data")


if __name__ == "__main__":
    fed(session(Settings.from_env()), Path(sys.argv[1]), max_bad_share=1, not_after="2100-01-01").retry()
