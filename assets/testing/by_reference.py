"""A pipeline by its reference joins: no engine, no tables; the state is in this process.

An epoch takes what was piped since the last one through all nodes, inputs first, as a run does: a node has an epoch
where an input that triggers has news, reads what is new of all its inputs in processing order, and ends with a commit
of its cache. All records are in one partition. Held by ``tests/testing/test_driver.py``, which puts the same records to
the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, NamedTuple

import pyarrow as pa

from rivermeet.assets.testing.expressions import ENGINE, Cells, DriverError, Evaluator, Select
from rivermeet.joins.reference.records import Join, Record, Row, Value, interleave, key_of, reference_module
from rivermeet.pipelines import GlobalView, Node, Operation, Pipeline

NOTHING = -(2**63)
"""Time that an input without records has reached."""


class Result(NamedTuple):
    """A record of a node.

    Attributes
    ----------
    key
        The key's column, a tuple of them where it has several; None is no key.
    value
        Column to value; None is a tombstone.
    timestamp
        Event time, epoch millis.
    """

    key: Any
    value: dict[str, Any] | None
    timestamp: int


class Made(NamedTuple):
    """A record of a node: its key as a tuple of columns."""

    key: tuple[Any, ...] | None
    value: Mapping[str, Any] | None
    timestamp: int


@dataclass(frozen=True)
class Shape:
    """The columns of a node's records, with their types."""

    key: pa.Schema
    value: pa.Schema

    @property
    def record(self) -> pa.Schema:
        """What expressions see of a record."""
        return pa.schema([*self.key, *self.value, pa.field("_timestamp", pa.int64())])

    @classmethod
    def of_source(cls, node: Node, evaluator: Evaluator) -> Shape:
        """That of a source's records."""
        assert node.source is not None
        value = {column: made.type for column, made in node.source.value.items()}
        return cls(evaluator.schema(node.key), evaluator.schema(value))

    def fields(self, made: Made) -> Cells:
        """A record as expressions see it: columns of a key or value that it lacks are null."""
        key = dict.fromkeys(self.key.names) if made.key is None else dict(zip(self.key.names, made.key, strict=True))
        value = dict.fromkeys(self.value.names) if made.value is None else made.value
        return {**key, **value, "_timestamp": made.timestamp}


@dataclass
class Computed:
    """A computed node and its reference.

    Attributes
    ----------
    asks
        Side to the expressions of its records.
    select
        The value joiner, where both sides are joined.
    read
        Side to how many of the input's records have been taken.
    seen
        Records processed so far.
    """

    node: Node
    join: Join
    asks: Mapping[str, Select]
    select: Select | None
    read: dict[str, int] = field(default_factory=dict)
    seen: int = 0

    @property
    def operation(self) -> Operation:
        """The declared operation."""
        assert self.node.operation is not None
        return self.node.operation


class ByReference:
    """The nodes of a pipeline, each with its records so far.

    Raises
    ------
    DriverError
        If a node needs the engine.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.evaluator = Evaluator()
        self.made: dict[str, list[Made]] = {node.name: [] for node in pipeline.stored}
        self.shapes: dict[str, Shape] = {}
        self._computed: list[Computed] = []
        self._views: dict[str, tuple[Select, Select]] = {}
        for node in pipeline.nodes:
            self._declare(node)

    def publish(self, node: Node, records: Sequence[Made]) -> None:
        """Take records of a source in."""
        self.made[node.name] += records

    def run(self) -> None:
        """One epoch of each node that has news."""
        for computed in self._computed:
            self._epoch(computed)

    def rows(self, node: Node) -> list[Made]:
        """All records of a node, in order; those of a view as its tables stand."""
        return self._view(node) if isinstance(node, GlobalView) else self.made[node.name]

    def late(self, node: Node) -> list[Made]:
        """Records that a node dropped because their window had closed."""
        join = next((c.join for c in self._computed if c.node is node), None)
        records: list[Record] = getattr(join, "late", [])
        return [Made(x.key, None if x.value is None else x.value.columns, x.timestamp) for x in records]

    def close(self) -> None:
        """Nothing is open."""

    def _declare(self, node: Node) -> None:
        where, operation = f"{node.pipeline.name}.{node.name}", node.operation
        key = self.evaluator.schema(node.key)
        nested = [name for name, kind in zip(key.names, key.types, strict=True) if pa.types.is_nested(kind)]
        if nested:
            raise DriverError(f"{where}: key column '{nested[0]}' is {node.key[nested[0]]}; {ENGINE}")
        if node.source is not None:
            self.shapes[node.name] = Shape.of_source(node, self.evaluator)
            return
        assert operation is not None
        inputs = {side: self.shapes[n.name] for side, n in operation.inputs.items()}
        select = None
        if operation.joins_sides:
            sides = pa.schema([pa.field(side, pa.struct(list(shape.record))) for side, shape in inputs.items()])
            select = self.evaluator.prepare(where, operation.select, sides)
        if isinstance(node, GlobalView):
            assert select is not None
            keys = self.evaluator.prepare(where, node.join_spec.key, inputs["left"].record)
            _refuse_cast(where, keys, inputs["right"].key)
            self._views[node.name] = (keys, select)
            self.shapes[node.name] = Shape(key, select.gives)
            return
        if (operation.max_task_idle_ms or 0) > 0:
            raise DriverError(
                f"{where}: max_task_idle_ms={operation.max_task_idle_ms} waits by the wall clock; declare 0 or None in "
                f"the test, or {ENGINE}"
            )
        try:
            reference = reference_module(operation)
        except LookupError as error:
            raise DriverError(f"{where}: {error}; {ENGINE}") from None
        asks = {
            side: self.evaluator.prepare(where, asked, inputs[side].record)
            for side, asked in reference.asks(operation).items()
        }
        self._computed.append(Computed(node, reference.reference_of(operation), asks, select))
        value = _value_type(where, operation, inputs["left"].value, asks.get("left"), select)
        for side, asked in asks.items():
            other = inputs.get("right" if side == "left" else "left")
            _refuse_cast(where, asked, key if other is None else other.key)
        self.shapes[node.name] = Shape(key, value)

    def _epoch(self, computed: Computed) -> None:
        operation, first = computed.operation, not computed.read
        new = self._release(computed)
        if not first and not any(new.get(side) for side in operation.triggers):
            return
        for side, made in new.items():
            computed.read[side] = computed.read.get(side, 0) + len(made)
        for node in operation.inputs.values():
            if isinstance(node, GlobalView):
                self._load(computed, node)
        rows: list[Row] = []
        for x in self._order(computed, new):
            rows += computed.join.process(x)
        rows += getattr(computed.join, "commit", list)()
        self.made[computed.node.name] += self._results(computed, rows)

    def _release(self, computed: Computed) -> dict[str, list[Made]]:
        """What each side has that is new, and need not wait for the other side."""
        operation = computed.operation
        nodes = {side: node for side, node in operation.inputs.items() if node.is_stored}
        new = {side: self.made[node.name][computed.read.get(side, 0) :] for side, node in nodes.items()}
        if operation.max_task_idle_ms is None and len({id(node) for node in nodes.values()}) == 2:
            reached = {
                side: max((made.timestamp for made in self.made[node.name]), default=NOTHING)
                for side, node in nodes.items()
            }
            # A tie goes to the left: a right record waits until the left has passed it.
            bounds = {"left": reached["right"], "right": reached["left"] - 1}
            new = {side: _until(made, bounds[side]) for side, made in new.items()}
        if operation.is_self_join:
            new["right"] = []
        return new

    def _order(self, computed: Computed, new: Mapping[str, Sequence[Made]]) -> list[Record]:
        sides = {
            side: self._records(self.shapes[node.name], side, new.get(side, ()), computed.asks.get(side))
            for side, node in computed.operation.inputs.items()
        }
        ordered = interleave(sides["left"], sides.get("right", ()))
        if computed.operation.table_first:
            ordered.sort(key=lambda record: record.side == "left")
        ordered = [replace(x, position=computed.seen + at) for at, x in enumerate(ordered)]
        computed.seen += len(ordered)
        return ordered

    def _records(self, shape: Shape, side: str, made: Sequence[Made], asks: Select | None) -> list[Record]:
        seen = [shape.fields(one) for one in made]
        found = [{} for _ in made] if asks is None else self.evaluator.evaluate(asks, seen)
        return [
            Record(
                side,
                one.key,
                None if one.value is None else Value(one.value, cells, given),
                one.timestamp,
                offset=at,
                found=given,
            )
            for at, (one, cells, given) in enumerate(zip(made, seen, found, strict=True))
        ]

    def _results(self, computed: Computed, rows: Sequence[Row]) -> list[Made]:
        if computed.select is None:
            return [Made(row.key, row.value, row.timestamp) for row in rows]
        joined = [row for row in rows if row.value is not None]
        values = iter(self._join_values(computed.select, [row.value for row in joined]))
        return [Made(row.key, None if row.value is None else next(values), row.timestamp) for row in rows]

    def _join_values(self, select: Select, pairs: Sequence[tuple[Value | None, Value | None]]) -> list[dict[str, Any]]:
        """What a value joiner gives of a left and a right record each."""
        sides = [
            {side: None if value is None else value.record for side, value in zip(("left", "right"), pair, strict=True)}
            for pair in pairs
        ]
        return self.evaluator.evaluate(select, sides)

    def _load(self, computed: Computed, view: GlobalView) -> None:
        """Let a stream look up a view as its tables stand."""
        table: dict[Any, Record] = computed.join.table  # pyright: ignore[reportAttributeAccessIssue]
        table.clear()
        for record in self._records(self.shapes[view.name], "right", self._view(view), None):
            table[record.key] = record

    def _view(self, view: GlobalView) -> list[Made]:
        join, (keys, select) = view.join_spec, self._views[view.name]
        left, right = (
            {record.key: record for record in self._records(self.shapes[node.name], side, self._live(node), asks)}
            for side, node, asks in (("left", join.left, keys), ("right", join.right, None))
        )
        pairs = [(x, right.get(key_of(join.right.key, x.found))) for x in left.values()]
        met = [(x, o) for x, o in pairs if o is not None or join.how != "inner"]
        values = self._join_values(select, [(x.value, o and o.value) for x, o in met])
        times = [x.timestamp if o is None else max(x.timestamp, o.timestamp) for x, o in met]
        return [Made(x.key, value, at) for (x, _), value, at in zip(met, values, times, strict=True)]

    def _live(self, node: Node) -> list[Made]:
        return list(fold(self.rows(node)).values())


def fold(rows: Sequence[Made]) -> dict[Any, Made]:
    """The last record of each key, without those that are deleted."""
    last = {row.key: row for row in rows if row.key is not None}
    return {key: row for key, row in last.items() if row.value is not None}


def _until(made: Sequence[Made], bound: int) -> list[Made]:
    """The records before the first that is later than a time."""
    return list(takewhile(lambda one: one.timestamp <= bound, made))


def _value_type(
    where: str, operation: Operation, given: pa.Schema, asks: Select | None, select: Select | None
) -> pa.Schema:
    if select is not None:
        return select.gives
    aggregations: Mapping[str, Any] = getattr(operation, "aggregations", {})
    if aggregations:
        assert asks is not None
        kinds = {
            c: _AGGREGATED[a.function](asks.gives.field(c).type if a.of else None) for c, a in aggregations.items()
        }
        exact = [c for c, a in aggregations.items() if a.function == "avg" and pa.types.is_decimal(kinds[c])]
        if exact:
            raise DriverError(
                f"{where}: '{exact[0]}' is the mean of a DECIMAL, which Spark rounds its own way; {ENGINE}"
            )
        return pa.schema([pa.field(column, kind) for column, kind in kinds.items()])
    return asks.gives if operation.select and asks is not None else given


def _sum_type(kind: Any) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    return pa.int64() if pa.types.is_integer(kind) else pa.float64()


_AGGREGATED: Mapping[str, Callable[[Any], pa.DataType]] = {
    "count": lambda kind: pa.int64(),
    "sum": _sum_type,
    "min": lambda kind: kind,
    "max": lambda kind: kind,
    "avg": lambda kind: kind if pa.types.is_decimal(kind) else pa.float64(),
}


def _refuse_cast(where: str, select: Select, key: pa.Schema) -> None:
    """Refuse an expression whose type is not that of the key that it gives: the engine would cast it."""
    for field_ in key:
        at = select.gives.get_field_index(field_.name)
        kind = None if at < 0 else select.gives.field(at).type
        if kind not in (None, field_.type) and not (pa.types.is_integer(kind) and pa.types.is_integer(field_.type)):
            raise DriverError(
                f"{where}: '{field_.name}' of the key is {field_.type}, and its expression gives {kind}, which Spark "
                f"casts; declare both with one type, or {ENGINE}"
            )
