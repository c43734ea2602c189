"""A small world for epoch tests: input changelogs written by hand, joins run by the real commit protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from assets.operator_step import OperatorStep, to_table
from infra.delta_io import append, last_note, read
from infra.delta_lines import opened
from infra.epoch_log import EpochLog
from infra.epochs import EpochRunner
from infra.fold import fold
from infra.plan import CommitNote
from infra.step import EpochResult
from pipelines import Node

Record = tuple[Any, Any, int, int]
"""key, value, timestamp, partition; key and value are tuples of column values, or None."""


@dataclass
class World:
    """Tables below ``root``, and the runner over them."""

    root: Path
    spark: SparkSession
    fold_session: SparkSession
    types: Mapping[str, str]
    """Node name to ``(key type, value type)`` DDL, for inputs that are written by hand."""
    results: list[EpochResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.root / "locks").mkdir(parents=True, exist_ok=True)

    def runner(self, pipeline: str) -> EpochRunner:
        log = EpochLog(str(self.root / "epochs" / pipeline), str(self.root / "locks" / "log.lock"))
        return EpochRunner(
            str(self.root / "tables"),
            log,
            self.root / "locks",
            lambda: self.spark,
            lambda: self.fold_session,
        )

    def publish(self, node: Node, records: Iterable[Record]) -> None:
        """Append records to an input's changelog and fold it, as its source would."""
        paths = self.runner(node.pipeline.name).paths(node)
        found = last_note(paths.changelog)
        ends = dict(found[1].ends) if found else {}
        epoch = found[1].epoch + 1 if found else 1
        times = dict(found[1].times) if found else {}
        rows = []
        for key, value, timestamp, partition in records:
            ends[partition] = ends.get(partition, -1) + 1
            times[partition] = max(times.get(partition, timestamp), timestamp)
            rows.append((key, value, timestamp, partition, ends[partition], epoch))
        schema = f"{self.types[node.name]}, timestamp BIGINT, partition INT, offset BIGINT, epoch BIGINT"
        note = CommitNote(incarnation=1, epoch=epoch, ends=ends, times=times)
        frame = self.spark.createDataFrame(rows, schema)
        append(frame, paths.changelog, paths.app_id("changelog", 1), epoch, note=note)
        if node.is_table:
            fold(lambda: self.fold_session, paths, list(node.key), to_table, note)

    def step(self, node: Node) -> OperatorStep:
        """A computed node's part in the protocol."""
        return OperatorStep(node, self.runner(node.pipeline.name).tables, session=lambda: self.spark)

    def rebuild(self, node: Node, grace: int | None = None) -> EpochResult | None:
        """The node computed anew."""
        return self.runner(node.pipeline.name).rebuild(self.step(node), grace)

    def run(self, node: Node, now_ms: float | None = None) -> EpochResult | None:
        """One epoch of a computed node, at that wall time."""
        runner, step = self.runner(node.pipeline.name), self.step(node)
        if now_ms is not None:
            step = replace(step, clock=lambda: now_ms)
        result = runner.run(step)
        if result is not None:
            self.results.append(result)
        return result

    def rows(self, node: Node, table: str = "changelog") -> list[dict[str, Any]]:
        """All rows of one of the node's tables, in order of epoch, partition and offset."""
        path = getattr(self.runner(node.pipeline.name).paths(node), table)
        found = opened(path)
        if found is None:
            return []
        rows = [row.asDict(recursive=True) for row in read(self.spark, path, found.version()).collect()]
        if table == "table":
            return sorted(rows, key=lambda row: (row["_partition"], row["_offset"]))
        return sorted(rows, key=lambda row: (row["epoch"], row["partition"], row["offset"]))


def cut(records: Sequence[Any], epochs: int) -> list[Sequence[Any]]:
    """A history in so many pieces of nearly equal length."""
    bounds = [round(i * len(records) / epochs) for i in range(epochs + 1)]
    return [records[a:b] for a, b in pairwise(bounds)]
