"""The records of a reference join as the evidence that explanations are made from, without tables and Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rivermeet.joins.reference.records import Record, Row
from rivermeet.joins.why.evidence import Found, Key, Made, Order, ResultRow
from rivermeet.joins.why.families import explain_absence, find_origins
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
    points: Callable[[Found], str | None] = lambda one: (
        None if one.value is None else foreign_key_of(None, one.value["v"])
    )
    """What every expression gives of a record."""

    @property
    def operation(self) -> Operation:
        assert self.node.operation is not None
        return self.node.operation

    def record(self, side: str, partition: int, offset: int) -> Found | None:
        side = "left" if self.operation.is_self_join else side
        place = side, partition, offset
        return next((self.found(r) for r in self.history if (r.side, r.partition, r.offset) == place), None)

    def records(self, side: str, key: Key) -> Sequence[Found]:
        wanted = tuple(key.values())
        return [self.found(r) for r in self.history if r.side == side and _columns(r.key) == wanted]

    def evaluate(self, side: str, asked: Mapping[str, Any], records: Sequence[Found]) -> list[dict[str, Any]]:
        return [dict.fromkeys(asked, self.points(one)) for one in records]

    def stream_time(self, side: str, partition: int, before: Order) -> int | None:
        # A table's changelog has no record without a key.
        keyless = not self.operation.inputs[side].is_table
        own = (r for r in self.history if (r.side, r.partition) == (side, partition) and (keyless or r.key is not None))
        seen = [(self._order(r), r) for r in own]
        return max((r.timestamp for order, r in seen if order is not None and order < before), default=None)

    def found(self, record: Record) -> Found:
        names, key = self.operation.inputs[record.side].key, _columns(record.key)
        return Found(
            record.side,
            None if key is None else dict(zip(names, key, strict=True)),
            None if record.value is None else getattr(record.value, "columns", {"v": record.value}),
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
        trigger = self.at(row.trigger)
        by_place = self.operation.family == "stream-stream"
        left, right = (None if at is None or not by_place else self.at(at).offset for at in (row.left, row.right))
        key = _columns(row.key)
        asked = ResultRow(
            None if key is None else dict(zip(self.node.key, key, strict=True)),
            _selected(row.value),
            row.timestamp,
            trigger.partition,
            self.found(trigger),
            left,
            right,
        )
        return find_origins(self.operation, asked, self)

    def at(self, position: int) -> Record:
        return next(r for r in self.history if r.position == position)

    def missing(self, *key: Any) -> set[str]:
        """Codes of the reasons why a key has no row."""
        asked = dict(zip(self.node.key, key, strict=True))
        return {reason.code for reason in explain_absence(self.operation, asked, self)}


def _selected(value: Any) -> Mapping[str, Any] | None:
    """A row's value by `SELECT`; of one input it is of no interest here."""
    sides = value if isinstance(value, tuple) and len(value) == 2 else (None, None)
    cells = {name: getattr(side, "columns", {"v": side})["v"] for name, side in zip(SELECT, sides, strict=True)}
    return None if value is None else cells


def _columns(key: Any) -> tuple[Any, ...] | None:
    return key if key is None or isinstance(key, tuple) else (key,)


def values(made: Made) -> tuple[str | None, str | None]:
    """The values of both sides, as the reference's rows have them."""
    left, right = (made.parts.get(side) for side in ("left", "right"))
    return tuple(None if one is None or one.value is None else one.value["v"] for one in (left, right))  # pyright: ignore


def live(rows: Sequence[Row]) -> set[Any]:
    """Keys whose last row is no tombstone."""
    last = {row.key: row.value for row in rows}
    return {key for key, value in last.items() if value is not None}
