"""A pipeline by its real operators: changelogs of Delta, plans and commits, in a scratch home that is removed.

Sources are written without Spark, as hand-written records are in ``rivermeet replay``; nothing is judged and nothing
computed is folded, as no node needs either.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rivermeet.assets.epoch.operator_step import OperatorStep
from rivermeet.assets.epoch.run import run_epoch
from rivermeet.assets.replay.epochs import commit_source, scratch_context
from rivermeet.assets.testing.by_reference import Made, Shape
from rivermeet.assets.testing.expressions import DriverError, Evaluator
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.engine.session import close, new_session, session
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Node, Pipeline


class ByEngine:
    """The nodes of a pipeline in tables of their own."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._scratch = tempfile.TemporaryDirectory(prefix="rivermeet-test-")
        spark = session(Settings.from_env())
        self._sessions = [new_session(spark), new_session(spark)]
        self._context = scratch_context(Path(self._scratch.name), *self._sessions)
        evaluator = Evaluator()
        self._sources: dict[str, pa.Schema] = {}
        for node in pipeline.nodes:
            if node.source is not None:
                shape = Shape.of_source(node, evaluator)
                self._sources[node.name] = _changelog(shape.key, shape.value)
        self._notes: dict[str, CommitNote] = {}
        self._new: dict[str, list[Made]] = {}

    def publish(self, node: Node, records: Sequence[Made]) -> None:
        """Keep records of a source for the next epoch."""
        self._new.setdefault(node.name, []).extend(records)

    def run(self) -> None:
        """Commit what is new of the sources, and run one epoch of each computed node that has news."""
        new, self._new = self._new, {}
        for node in self._pipeline.nodes:
            if node.source is not None:
                self._commit(node, new.get(node.name, []))
            elif node.is_stored:
                session = self._context.session
                run_epoch(self._context, OperatorStep(node, self._context.tables, session=session))

    def rows(self, node: Node) -> list[Made]:
        """All records of a node, in order."""
        if not node.is_stored:
            raise DriverError(f"'{node.name}' is a view, and nothing of it is stored; read what looks it up")
        paths = self._context.paths(node)
        return [
            Made(None if row["key"] is None else tuple(row["key"].values()), row["value"], row["timestamp"])
            for row in _read_committed(paths.changelog, "epoch", "partition", "offset")
        ]

    def late(self, node: Node) -> list[Made]:
        """Records that a node dropped because their window had closed; values are kept as JSON, and read from that."""
        assert node.operation is not None
        found: list[Made] = []
        for row in _read_committed(self._context.paths(node).late, "epoch", "partition", "offset"):
            if row["close"] is not None:
                value = json.loads(row["value"])
                columns = {column: value.get(column) for column in node.operation.inputs[row["side"]].value}
                found.append(Made(tuple(row["key"].values()), columns, row["timestamp"]))
        return found

    def close(self) -> None:
        """End the sessions and remove the scratch home."""
        for spark in self._sessions:
            close(spark)
        self._scratch.cleanup()

    def _commit(self, node: Node, records: Sequence[Made]) -> None:
        previous = self._notes.get(node.name)
        if previous is not None and not records:
            return
        epoch, first = (1, 0) if previous is None else (previous.epoch + 1, previous.ends.get(0, -1) + 1)
        times = [made.timestamp for made in records] + list(previous.times.values() if previous else ())
        note = CommitNote(
            incarnation=1,
            epoch=epoch,
            ends={0: first + len(records) - 1} if first + len(records) else {},
            times={0: max(times)} if times else {},
        )
        schema = self._sources[node.name]
        names = [field.name for field in schema.field("key").type]
        lines: list[dict[str, Any]] = [
            {
                "key": None if made.key is None else dict(zip(names, made.key, strict=True)),
                "value": made.value,
                "timestamp": made.timestamp,
                "partition": 0,
                "offset": first + at,
                "epoch": epoch,
            }
            for at, made in enumerate(records)
        ]
        commit_source(self._context, node, pa.Table.from_pylist(lines, schema), note)
        self._notes[node.name] = note


def _changelog(key: pa.Schema, value: pa.Schema) -> pa.Schema:
    numbers = {"timestamp": pa.int64(), "partition": pa.int32(), "offset": pa.int64(), "epoch": pa.int64()}
    return pa.schema({"key": pa.struct(list(key)), "value": pa.struct(list(value)), **numbers})


def _read_committed(path: str, *order: str) -> list[dict[str, Any]]:
    """The committed rows of a Delta table in order; none where it is not there."""
    table = open_table(path)
    if table is None:
        return []
    rows = table.to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: tuple(row[column] for column in order))
