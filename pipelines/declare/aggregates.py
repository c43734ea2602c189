"""Groups and their aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rivermeet.pipelines.declare.nodes import WINDOW_KEY, add_node, check_columns, checked_partitions, key_types
from rivermeet.pipelines.errors import listed
from rivermeet.pipelines.operations import (
    Aggregation,
    TableAggregate,
    WindowedAggregate,
)
from rivermeet.pipelines.source import Expr
from rivermeet.pipelines.window import SlidingWindows, TimeWindows

if TYPE_CHECKING:
    from rivermeet.pipelines.grouped import GroupedStream, GroupedTable
    from rivermeet.pipelines.nodes import Stream, Table, WindowedTable


def grouped_stream(stream: Stream) -> GroupedStream:
    """Records by their key."""
    from rivermeet.pipelines.grouped import GroupedStream

    return GroupedStream(stream)


def grouped_table(table: Table, key: Mapping[str, Expr]) -> GroupedTable:
    """Rows by another key."""
    from rivermeet.pipelines.grouped import GroupedTable

    return GroupedTable(table, key)


def table_aggregate(
    table: Table,
    key: Mapping[str, Expr],
    aggregations: Mapping[str, Aggregation],
    name: str,
    partitions: int | None,
    fold: str | None = None,
) -> Table:
    """A table aggregated by another key."""
    from rivermeet.pipelines.nodes import Table

    kinds = key_types(table, name, key, tuple(aggregations))
    check_columns(table, name, aggregations)
    count = checked_partitions(table, name, partitions)
    spec = TableAggregate(input=table, key=key, aggregations=aggregations, partitions=count)
    return add_node(Table, table, name, spec, aggregations, key=kinds, partitions=count, fold=fold)


def windowed_aggregate(
    stream: Stream,
    windows: TimeWindows | SlidingWindows,
    aggregations: Mapping[str, Aggregation],
    name: str,
    fold: str | None = None,
) -> WindowedTable:
    """A stream aggregated by key and window."""
    from rivermeet.pipelines.nodes import WindowedTable

    check_columns(stream, name, aggregations)
    clash = [column for column in WINDOW_KEY if column in stream.key or column in aggregations]
    if clash:
        raise stream.refuse(name, f"{listed(clash)} is what the windows are called; rename the column")
    spec = WindowedAggregate(input=stream, windows=windows, aggregations=aggregations)
    key = {**stream.key, **WINDOW_KEY}
    return add_node(WindowedTable, stream, name, spec, aggregations, key=key, windows=windows, fold=fold)
