"""Many histories in one run: each is a partition of its own, so that a few Spark jobs answer all of them.

A history is cut into so many epochs, and epoch n of every history is published at once. The order of processing is
the project's: epoch by epoch, and in an epoch by head timestamps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rivermeet.joins.reference.records import Record, interleave
from rivermeet.pipelines import Files, GlobalTable, Pipeline, Stream, Table
from tests.reference.histories import split
from tests.world import World, cut

COLUMNS = {"k": "STRING", "v": "STRING", "ts": "BIGINT"}
FILES = Files("none/*.csv", "csv", COLUMNS)
TYPES = "key STRUCT<k: STRING>, value STRUCT<v: STRING>"
EACH = 0
"""A cut with one record per epoch."""

Answer = tuple[Any, ...]


@dataclass
class Batch:
    """Histories, one per partition; ``mark`` makes a key one history's own where partitions do not."""

    histories: Sequence[Sequence[Record]]
    epochs: int
    mark: Callable[[int, Any], Any] = lambda case, key: key

    def __post_init__(self) -> None:
        self.histories = [
            [replace(record, partition=case) for record in history] for case, history in enumerate(self.histories)
        ]
        self._pieces = [self._cut(case) for case in range(len(self.histories))]

    def pieces(self, case: int) -> list[list[Record]]:
        """A history in epochs, each in the order in which it is processed."""
        return self._pieces[case]

    def _cut(self, case: int) -> list[list[Record]]:
        history = self.histories[case]
        count = self.epochs or max(map(len, self.histories))
        parts = cut(history, count) if self.epochs else [history[i : i + 1] for i in range(count)]
        ordered: list[list[Record]] = []
        position = 0
        for part in parts:
            merged = interleave(*split(part))
            ordered.append([replace(r, position=position + i) for i, r in enumerate(merged)])
            position += len(part)
        return ordered

    def published(self, epoch: int, side: str) -> list[tuple[Any, Any, int, int]]:
        """Records of one side in one epoch, in order of arrival."""
        found: list[tuple[Any, Any, int, int]] = []
        for case in range(len(self.histories)):
            mine = sorted((r for r in self.pieces(case)[epoch] if r.side == side), key=lambda r: r.offset)
            for r in mine:
                key = None if r.key is None else (self.mark(case, r.key),)
                found.append((key, None if r.value is None else (r.value,), r.timestamp, case))
        return found

    def offsets(self, case: int) -> dict[int, tuple[str, int]]:
        """Position to (side, offset) of a history's records."""
        counts = {"left": 0, "right": 0}
        found: dict[int, tuple[str, int]] = {}
        every = [r for piece in self.pieces(case) for r in sorted(piece, key=lambda r: r.offset)]
        for r in every:
            found[r.position] = (r.side, counts[r.side])
            counts[r.side] += 1
        return found


def two_streams() -> tuple[Stream, Stream]:
    """Two streams of text, keyed by text."""
    pipeline = Pipeline("batch")
    return tuple(  # pyright: ignore[reportReturnType]
        pipeline.stream(name, FILES, key=["k"], value=["v"], timestamp="ts") for name in ("a", "b")
    )


def stream_and_global() -> tuple[Stream, GlobalTable]:
    """A stream and a global table of text."""
    pipeline = Pipeline("batch")
    left = pipeline.stream("a", FILES, key=["k"], value=["v"], timestamp="ts")
    return left, pipeline.global_table("b", FILES, key=["k"], value=["v"], timestamp="ts")


def two_tables() -> tuple[Table, Table]:
    """Two tables of text, keyed by text."""
    pipeline = Pipeline("batch")
    return tuple(  # pyright: ignore[reportReturnType]
        pipeline.table(name, FILES, key=["k"], value=["v"], timestamp="ts") for name in ("a", "b")
    )


def run(world: World, node: Any, batch: Batch) -> list[dict[str, Any]]:
    """Publish epoch after epoch, run the join after each, and give all rows in order."""
    count = batch.epochs or max(map(len, batch.histories))
    left, right = node.join_spec.left, node.join_spec.right
    for epoch in range(count):
        for side, part in (("left", left), ("right", right)):
            records = batch.published(epoch, side)
            if records or epoch == 0:
                world.publish(part, records)
        world.run(node)
    return world.rows(node)


def by_partition(rows: Iterable[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Rows of each partition in the order of their offsets, which are dense."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        mine = found.setdefault(row["partition"], [])
        assert row["offset"] == len(mine), row
        mine.append(row)
    return found


def found(row: dict[str, Any]) -> tuple[Any, ...]:
    """A committed pair or one-sided row of two streams: key, both values, timestamp, and the places behind it."""
    value, trigger = row["value"], row["trigger"]
    return (
        row["key"] and row["key"]["k"],
        (value["l"], value["r"]),
        row["timestamp"],
        (trigger["side"], trigger["offset"]),
        row["left_offset"],
        row["right_offset"],
    )
