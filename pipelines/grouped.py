"""Grouped streams and tables: what stands between ``group_by`` and ``aggregate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rivermeet.pipelines.declare.aggregates import table_aggregate, windowed_aggregate
from rivermeet.pipelines.nodes import Stream, Table, WindowedTable
from rivermeet.pipelines.operations import Aggregation
from rivermeet.pipelines.source import Expr
from rivermeet.pipelines.window import SlidingWindows, TimeWindows


@dataclass(frozen=True)
class GroupedTable:
    """A table's rows by another key."""

    table: Table
    key: Mapping[str, Expr]

    def aggregate(
        self,
        aggregations: Mapping[str, Aggregation],
        name: str,
        partitions: int | None = None,
        fold: str | None = None,
    ) -> Table:
        """Aggregate each group: output column to `count`, `total`, `minimum`, `maximum` or `average`.

        A group that has no rows any more ends with a tombstone. ``fold`` as in `Node`.
        """
        return table_aggregate(self.table, self.key, aggregations, name, partitions, fold)


@dataclass(frozen=True)
class GroupedStream:
    """A stream's records by their key."""

    stream: Stream

    def windowed_by(self, windows: TimeWindows | SlidingWindows) -> WindowedStream:
        """Records by key and window."""
        return WindowedStream(self.stream, windows)


@dataclass(frozen=True)
class WindowedStream:
    """A stream's records by key and window."""

    stream: Stream
    windows: TimeWindows | SlidingWindows

    def aggregate(self, aggregations: Mapping[str, Aggregation], name: str, fold: str | None = None) -> WindowedTable:
        """Aggregate each key and window; columns, and ``fold``, as for `GroupedTable.aggregate`."""
        return windowed_aggregate(self.stream, self.windows, aggregations, name, fold)
