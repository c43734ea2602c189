"""A small world for epoch tests: input changelogs written by hand, joins run by the real commit protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from rivermeet.assets.epoch.operator_step import OperatorStep
from rivermeet.assets.epoch.run import run_node
from rivermeet.assets.epoch.verify import Verified, verify
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.fold import fold
from rivermeet.infra.delta.io import append, append_records, last_note, read
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.epochs.context import EpochContext, Quality
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.stages.plan import Rebuild
from rivermeet.infra.epochs.step import EpochResult
from rivermeet.pipelines import Node

Record = tuple[Any, Any, int, int]
"""key, value, timestamp, partition; key and value are tuples of column values, or None."""


PLACE = "timestamp BIGINT, partition INT, offset BIGINT, epoch BIGINT"


@dataclass
class World:
    """Tables below ``root``, and the runner over them."""

    root: Path
    spark: SparkSession
    fold_session: SparkSession
    types: Mapping[str, str]
    """Node name to ``(key type, value type)`` DDL, for inputs that are written by hand."""
    results: list[EpochResult] = field(default_factory=list)
    as_sources_do: bool = False
    """Whether inputs are published as by a source: through Spark, grown where needed, folded each time."""

    def __post_init__(self) -> None:
        (self.root / "locks").mkdir(parents=True, exist_ok=True)

    def runner(self, pipeline: str) -> EpochContext:
        log = EpochLog(str(self.root / "epochs" / pipeline), str(self.root / "locks" / "log.lock"))
        return EpochContext(
            str(self.root / "tables"),
            log,
            self.root / "locks",
            lambda: self.spark,
            lambda: self.fold_session,
            folds="run",
        )

    def verified(self, node: Node, judge: Literal["auto", "duckdb"] = "duckdb") -> Verified:
        """What `rivermeet verify` finds of a node."""
        context = self.runner(node.pipeline.name)
        home = self.root / "judged"
        context.quality = Quality(str(home / "quality"), home / "lock", judge, "1g", home / "spill")
        found = verify(context, node)
        assert found is not None, f"{node.name} has committed something"
        return found

    def publish(self, node: Node, records: Iterable[Record]) -> None:
        """Append records to an input's changelog, and fold it every other time.

        What is under test is what reads them: they are written without Spark, which takes a second or two less.
        A folded table that is behind its changelog is the usual case.
        """
        paths = self.runner(node.pipeline.name).paths(node)
        found = last_note(paths.changelog)
        ends = dict(found[1].ends) if found else {}
        epoch = found[1].epoch + 1 if found else 1
        times = dict(found[1].times) if found else {}
        given = list(records)
        schema = _arrow(self.spark, f"{self.types[node.name]}, {PLACE}")
        key_names, value_names = ([field.name for field in schema.field(name).type] for name in ("key", "value"))
        rows = []
        for key, value, timestamp, partition in given:
            ends[partition] = ends.get(partition, -1) + 1
            times[partition] = max(times.get(partition, timestamp), timestamp)
            named = [
                None if cells is None else dict(zip(names, cells, strict=True))
                for names, cells in ((key_names, key), (value_names, value))
            ]
            rows.append((*named, timestamp, partition, ends[partition], epoch))
        note = CommitNote(incarnation=1, epoch=epoch, ends=ends, times=times)
        lines = [dict(zip(schema.names, row, strict=True)) for row in rows]
        app_id, published = paths.app_id("changelog", 1), pa.Table.from_pylist(lines, schema)
        if self.as_sources_do:
            appended = self.spark.createDataFrame(published, f"{self.types[node.name]}, {PLACE}")
            append(appended, paths.changelog, app_id, epoch, note=note)
        else:
            append_records(published, paths.changelog, app_id, note)
        if node.is_table and (epoch % 2 or self.as_sources_do):
            fold(lambda: self.fold_session, paths, list(node.key), note)

    def step(self, node: Node) -> OperatorStep:
        """A computed node's part in the protocol."""
        return OperatorStep(node, self.runner(node.pipeline.name).tables, session=lambda: self.spark)

    def rebuild(self, node: Node, grace: int | None = None) -> EpochResult | None:
        """The node recomputed."""
        return run_node(self.runner(node.pipeline.name), self.step(node), rebuild=Rebuild(grace)).result

    def run(self, node: Node, now_ms: float | None = None) -> EpochResult | None:
        """One epoch of a computed node, at that wall time."""
        runner, step = self.runner(node.pipeline.name), self.step(node)
        if now_ms is not None:
            step = replace(step, clock=lambda: now_ms)
        result = run_node(runner, step).result
        if result is not None:
            self.results.append(result)
        return result

    def rows(self, node: Node, table: str = "changelog") -> list[dict[str, Any]]:
        """All rows of one of the node's tables, in order of epoch, partition and offset."""
        path = getattr(self.runner(node.pipeline.name).paths(node), table)
        found = open_table(path)
        if found is None:
            return []
        rows = [row.asDict(recursive=True) for row in read(self.spark, path, found.version()).collect()]
        if table == "table":
            return sorted(rows, key=lambda row: (row["_partition"], row["_offset"]))
        return sorted(rows, key=lambda row: (row["epoch"], row["partition"], row["offset"]))


@cache
def _arrow(spark: SparkSession, columns: str) -> pa.Schema:
    """Columns in DDL as Arrow has them."""
    return to_arrow_schema(spark.createDataFrame([], columns).schema)


def cut(records: Sequence[Any], epochs: int) -> list[Sequence[Any]]:
    """A history in so many pieces of nearly equal length."""
    bounds = [round(i * len(records) / epochs) for i in range(epochs + 1)]
    return [records[a:b] for a, b in pairwise(bounds)]
