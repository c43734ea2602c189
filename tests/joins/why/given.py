"""The records of a reference join as the evidence that explanations are made from, without tables and Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rivermeet.joins.reference.records import Record, Row
from rivermeet.joins.why.evidence import Found, Key, Late, Made, Order, ResultRow, Trigger, Unknown
from rivermeet.joins.why.families import explanation_of
from rivermeet.pipelines import Files, Node, Operation, Pipeline
from tests.reference.histories import foreign_key_of

SELECT = {"x": "left.v", "y": "right.v"}
KEYS = {"left": "a", "right": "b"}
"""Name of each side's key column; both sides have the value column v."""


def two(kind: str, other: str, same_key: bool = False, **options: Any) -> tuple[Any, Any]:
    """Two sources of a pipeline: what is computed of them is never read from files here."""
    pipeline = Pipeline("shop")
    files = Files("n/*.csv", "csv", {"k": "STRING", "v": "STRING", "ts": "BIGINT"})
    given: Any = {"value": ["v"], "timestamp": "ts"}
    left, right = ({"key": {"a" if same_key else KEYS[side]: "k"}, **given} for side in KEYS)
    return getattr(pipeline, kind)("l", files, **left), getattr(pipeline, other)("r", files, **right, **options)


@dataclass
class Given:
    """All records; the first ``consumed`` (all, if None) were joined; each has one epoch, or its own."""

    node: Node
    history: Sequence[Record]
    consumed: int | None = None
    epochs: Sequence[int] = ()
    dropped: Sequence[Late] = ()
    reached: Mapping[int, int] = field(default_factory=dict)

    @property
    def operation(self) -> Operation:
        assert self.node.operation is not None
        return self.node.operation

    def record(self, side: str, partition: int, offset: int) -> Found | None:
        place = side, partition, offset
        return next((self.found(r) for r in self.history if (r.side, r.partition, r.offset) == place), None)

    def records(self, side: str, key: Key | None) -> Sequence[Found]:
        wanted = None if key is None else next(iter(key.values()))
        return [self.found(r) for r in self.history if r.side == side and r.key == wanted]

    def mapped(self, mapper: Mapping[str, str], record: Found) -> Key | Unknown | None:
        (column,) = mapper
        if record.value is None:
            return None
        found = foreign_key_of(None, record.value["v"])
        return None if found is None else {column: found}

    def late(self, key: Key | None) -> Sequence[Late]:
        return [late for late in self.dropped if late.key == key]

    def stream_time(self, partition: int) -> int | None:
        return self.reached.get(partition)

    def found(self, record: Record) -> Found:
        name = next(iter(self.operation.inputs[record.side].key))
        return Found(
            record.side,
            None if record.key is None else {name: record.key},
            None if record.value is None else {"v": record.value},
            record.timestamp,
            record.partition,
            record.offset,
            self._order(record),
        )

    def _order(self, record: Record) -> Order | None:
        if self.consumed is not None and record.position >= self.consumed:
            return None
        return (self.epochs[record.position] if self.epochs else 1, record.position)

    def made(self, row: Row) -> Made:
        """What a row of the reference was made of, as it is explained."""
        trigger = next(r for r in self.history if r.position == row.trigger)
        left, right = (None if at is None else self.at(at) for at in (row.left, row.right))
        keys = row.key if isinstance(row.key, tuple) else (row.key,)
        key = None if row.key is None else dict(zip(self.node.key, keys, strict=True))
        asked = ResultRow(
            key,
            None if row.value is None else {"v": row.value},
            row.timestamp,
            trigger.partition,
            0,
            1,
            Trigger(trigger.side, trigger.partition, trigger.offset),
            None if left is None else left.offset,
            None if right is None else right.offset,
        )
        return explanation_of(self.operation).made_of(self.operation, asked, self.found(trigger), self)

    def at(self, position: int) -> Record:
        return next(r for r in self.history if r.position == position)

    def missing(self, *key: Any) -> set[str]:
        """Codes of the reasons why a key has no row."""
        asked = dict(zip(self.node.key, key, strict=True))
        return {reason.code for reason in explanation_of(self.operation).missing(self.operation, asked, self)}


def values(made: Made) -> tuple[str | None, str | None]:
    """The values of both sides, as the reference's rows have them."""
    left, right = (made.parts.get(side) for side in ("left", "right"))
    return tuple(None if one is None or one.value is None else one.value["v"] for one in (left, right))  # pyright: ignore


def live(rows: Sequence[Row]) -> set[Any]:
    """Keys whose last row is no tombstone."""
    last = {row.key: row.value for row in rows}
    return {key for key, value in last.items() if value is not None}
