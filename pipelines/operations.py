"""Operations around joins: one frozen value each. Kafka Streams' names in snake case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from rivermeet.pipelines.joins import Operation, ValueExpr
from rivermeet.pipelines.window import SlidingWindows, TimeWindows

if TYPE_CHECKING:
    from rivermeet.pipelines.expressions import Expr
    from rivermeet.pipelines.nodes import Node, Stream, Table

Function = Literal["count", "sum", "min", "max", "avg"]


@dataclass(frozen=True, kw_only=True)
class OneInput(Operation):
    """Base of operations on one input; their rows are triggered by side ``left``."""

    input: Node
    select: Mapping[str, ValueExpr] = field(default_factory=dict)

    @property
    def inputs(self) -> Mapping[str, Node]:
        """The one input."""
        return {"left": self.input}


@dataclass(frozen=True, kw_only=True)
class Filter(OneInput):
    """Records for which ``where`` (SQL over key and value columns) is true.

    In a stream, others are omitted; in a table, a row that no longer satisfies it ends with a tombstone.
    """

    where: str

    family = "filter"
    keeps_values = True


@dataclass(frozen=True, kw_only=True)
class MapValues(OneInput):
    """Records with another value: ``select``, output column to SQL over key and value columns; null stays null."""

    family = "map-values"


@dataclass(frozen=True, kw_only=True)
class SelectKey(OneInput):
    """Stream records under another key, repartitioned by it; in order of arrival as far as that is defined."""

    input: Stream
    key: Mapping[str, Expr]
    partitions: int

    family = "select-key"
    keeps_values = True

    @property
    def by_partition(self) -> tuple[str, ...]:
        """None: a new key lies anywhere."""
        return ()

    def expression(self, column: str) -> str | None:
        """A key column's expression."""
        return self.key[column].sql if column in self.key else super().expression(column)


@dataclass(frozen=True, kw_only=True)
class ToTable(OneInput):
    """A stream read as the changelog of a table: records without a key are skipped and counted."""

    input: Stream

    family = "to-table"
    keeps_values = True


@dataclass(frozen=True, kw_only=True)
class ToStream(OneInput):
    """A table's changelog read as a stream: a tombstone is a record without a value."""

    input: Table

    family = "to-stream"
    keeps_values = True


@dataclass(frozen=True, kw_only=True)
class Merge(Operation):
    """The records of two streams of one shape, each input in its own order, interleaved by timestamp."""

    left: Stream
    right: Stream
    select: Mapping[str, ValueExpr] = field(default_factory=dict)

    triggers = ("left", "right")
    family = "merge"
    keeps_values = True

    @property
    def inputs(self) -> Mapping[str, Node]:
        """Both streams."""
        return {"left": self.left, "right": self.right}


@dataclass(frozen=True)
class Aggregation:
    """One aggregated column: ``function`` of the SQL expression ``of`` (None: of the rows)."""

    function: Function
    of: str | None = None


@dataclass(frozen=True, kw_only=True)
class TableAggregate(OneInput):
    """A table's rows aggregated under another key: an update subtracts the old row and adds the new one.

    ``partitions`` is how many the new keys are hashed into.
    """

    input: Table
    key: Mapping[str, Expr]
    aggregations: Mapping[str, Aggregation]
    partitions: int

    family = "table-aggregate"

    @property
    def by_partition(self) -> tuple[str, ...]:
        """None: a new key lies anywhere."""
        return ()

    def expression(self, column: str) -> str | None:
        """The expression of an aggregate or a key column."""
        if column in self.aggregations:
            return self.aggregations[column].of or ""
        return self.key[column].sql if column in self.key else super().expression(column)


@dataclass(frozen=True, kw_only=True)
class WindowedAggregate(OneInput):
    """A stream's records aggregated by key and window; each record updates the windows that contain it."""

    input: Stream
    windows: TimeWindows | SlidingWindows
    aggregations: Mapping[str, Aggregation]

    family = "windowed-aggregate"

    @property
    def open_ms(self) -> int:
        """Until all windows that contain a record have closed."""
        return self.windows.open_ms

    def expression(self, column: str) -> str | None:
        """The expression of an aggregate."""
        return self.aggregations[column].of or "" if column in self.aggregations else super().expression(column)

    def with_grace(self, grace: int) -> WindowedAggregate:
        """The aggregate with another grace of its windows."""
        return replace(self, windows=replace(self.windows, grace=grace))


def count() -> Aggregation:
    """How many rows.

    Examples
    --------
    >>> departures.group_by_key().windowed_by(TimeWindows("1d")).aggregate({"flights": count()}, "daily").value
    ('flights',)
    """
    return Aggregation("count")


def total(of: str) -> Aggregation:
    """Sum of an expression; null where no row has one.

    Examples
    --------
    >>> planes.group_by({"maker": expr("maker", "STRING")}).aggregate({"seats": total("seats")}, "of_makers").value
    ('seats',)
    """
    return Aggregation("sum", of)


def minimum(of: str) -> Aggregation:
    """Least value of an expression.

    Examples
    --------
    >>> minimum("delay").of
    'delay'
    """
    return Aggregation("min", of)


def maximum(of: str) -> Aggregation:
    """Greatest value of an expression.

    Examples
    --------
    >>> maximum("seats / 6").function
    'max'
    """
    return Aggregation("max", of)


def average(of: str) -> Aggregation:
    """Mean of an expression.

    Examples
    --------
    >>> average("delay").function
    'avg'
    """
    return Aggregation("avg", of)
