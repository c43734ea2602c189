"""Filters, mappings, other keys, merged streams, and streams and tables read as each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from rivermeet.pipelines.declare.join_rules import Select, check_one_pipeline, kind_of
from rivermeet.pipelines.declare.nodes import (
    add_node,
    check_columns,
    checked_partitions,
    history_ms,
    key_types,
    node_like,
)
from rivermeet.pipelines.errors import listed
from rivermeet.pipelines.operations import (
    Filter,
    MapValues,
    Merge,
    SelectKey,
    ToStream,
    ToTable,
)
from rivermeet.pipelines.source import Expr

if TYPE_CHECKING:
    from rivermeet.pipelines.nodes import Node, Stream, Table

_N = TypeVar("_N", bound="Node")


def filtered(node: _N, where: str, name: str, fold: str | None = None) -> _N:
    """A stream or table of the records that pass."""
    return node_like(node, name, Filter(input=node, where=where), node.value, fold)


def mapped_values(node: _N, select: Select, name: str, fold: str | None = None) -> _N:
    """A stream or table with another value."""
    check_columns(node, name, select)
    functions = [column for column, e in select.items() if not isinstance(e, str)]
    if functions:
        raise node.refuse(
            name, f"select gives {listed(functions)} as no SQL text; map_values takes SQL over key and value columns"
        )
    return node_like(node, name, MapValues(input=node, select=select), tuple(select), fold)


def selected_key(stream: Stream, key: Mapping[str, Expr], name: str, partitions: int | None) -> Stream:
    """A stream under another key."""
    from rivermeet.pipelines.nodes import Stream

    kinds = key_types(stream, name, key, stream.value)
    count = checked_partitions(stream, name, partitions)
    spec = SelectKey(input=stream, key=key, partitions=count)
    return add_node(Stream, stream, name, spec, stream.value, key=kinds, partitions=count)


def merged(left: Stream, right: Stream, name: str) -> Stream:
    """Two streams as one."""
    from rivermeet.pipelines.nodes import Stream

    if not isinstance(right, Stream):
        raise left.refuse(
            name, f"a stream merges with a stream, and '{right.name}' is a {kind_of(right)}; read it with to_stream()"
        )
    check_one_pipeline(left, right, name)
    if dict(left.key) != dict(right.key) or left.value != right.value or left.partitions != right.partitions:
        raise left.refuse(
            name,
            f"'{left.name}' has key {dict(left.key)}, value {listed(left.value)}, {left.partitions} partitions; "
            f"'{right.name}' has key {dict(right.key)}, value {listed(right.value)}, {right.partitions}: make them "
            "equal with map_values() and select_key()",
        )
    return add_node(Stream, left, name, Merge(left=left, right=right), left.value)


def to_table(stream: Stream, name: str, history: str | int | None, fold: str | None = None) -> Table:
    """A stream read as a table's changelog."""
    from rivermeet.pipelines.nodes import Table

    return add_node(
        Table, stream, name, ToTable(input=stream), stream.value, history=history_ms(stream, name, history), fold=fold
    )


def to_stream(table: Table, name: str) -> Stream:
    """A table's changelog read as a stream."""
    from rivermeet.pipelines.nodes import Stream

    return add_node(Stream, table, name, ToStream(input=table), table.value)
