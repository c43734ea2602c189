"""Operations on one input over many histories at once: each history is a partition, with keys of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rivermeet.pipelines import Files, Node, Pipeline, Stream, Table
from rivermeet.pipelines.operations import Aggregation, average, count, maximum, minimum, total
from tests.joins.epochs.batch import EACH
from tests.reference.aggregates import Columns
from tests.reference.histories import DELAYS, STEPS
from tests.reference.records import Record
from tests.world import World, cut

VALUE = {"g": "STRING", "n": "BIGINT", "x": "DOUBLE", "d": "DECIMAL(9,2)"}
FILES = Files("none/*.csv", "csv", {"k": "STRING", "ts": "BIGINT", **VALUE})
TYPES = f"key STRUCT<k: STRING>, value STRUCT<{', '.join(f'{c}: {kind}' for c, kind in VALUE.items())}>"

AGGREGATIONS: dict[str, Aggregation] = {
    "records": count(),
    "known": Aggregation("count", "n"),
    "total": total("n"),
    "halves": total("x * 2"),
    "money": total("d"),
    "least": minimum("n"),
    "last": maximum("g"),
    "mean": average("n"),
}
COLUMNS: Columns = {
    "records": ("count", None),
    "known": ("count", lambda v: v[1]),
    "total": ("sum", lambda v: v[1]),
    "halves": ("sum", lambda v: None if v[2] is None else v[2] * 2),
    "money": ("sum", lambda v: v[3]),
    "least": ("min", lambda v: v[1]),
    "last": ("max", lambda v: v[0]),
    "mean": ("avg", lambda v: v[1]),
}


def table() -> Table:
    """A table with values to group and aggregate."""
    return Pipeline("one").table("a", FILES, key=["k"], value=list(VALUE), timestamp="ts")


def stream() -> Stream:
    """A stream of the same shape."""
    return Pipeline("one").stream("a", FILES, key=["k"], value=list(VALUE), timestamp="ts")


def random_histories(seed: int, count: int, size: int, first: int = 0, start: int = 100) -> list[list[Record]]:
    """Few keys and groups, null keys, values and columns, late and out of order; sums of doubles are exact."""
    rng = random.Random(seed)
    histories = []
    for case in range(first, first + count):
        clock, history = start, []
        for at in range(size):
            clock += rng.choice(STEPS)
            key = rng.choice("aabc") if rng.random() < 0.95 else None
            group = rng.choice(["x", "x", "y", "z", None])
            value = (
                None if group is None else f"{case}:{group}",
                rng.choice([None, 1, 2, 3, 5, -7, 2**40]),
                rng.choice([None, 0.25, 1.5, -8.0]),
                rng.choice([None, Decimal("0.01"), Decimal("9999999.99"), Decimal("-3.10")]),
            )
            time = max(0, clock - rng.choice(DELAYS))
            named = None if key is None else f"{case}:{key}"
            history.append(Record("left", named, None if rng.random() < 0.15 else value, time, case, at, at))
        histories.append(history)
    return histories


def run(world: World, node: Node, histories: Sequence[Sequence[Record]], epochs: int) -> list[dict[str, Any]]:
    """Publish epoch after epoch, run the operation after each, and give all rows in order."""
    assert node.operation is not None
    source = node.operation.inputs["left"]
    parts = epochs or max(map(len, histories))
    pieces = [cut(h, epochs) if epochs else [h[i : i + 1] for i in range(parts)] for h in histories]
    for epoch in range(parts):
        world.publish(
            source,
            [
                (None if r.key is None else (r.key,), r.value, r.timestamp, r.partition)
                for piece in pieces
                for r in piece[epoch]
            ],
        )
        world.run(node)
    return world.rows(node)


__all__ = ["AGGREGATIONS", "COLUMNS", "EACH", "TYPES", "random_histories", "run", "stream", "table"]
