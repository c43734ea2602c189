"""What every declared node has in common: its columns, key and partitions, checked, and the node itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from rivermeet.pipelines.errors import listed
from rivermeet.pipelines.joins import (
    Operation,
)
from rivermeet.pipelines.source import Expr
from rivermeet.pipelines.window import duration_ms

if TYPE_CHECKING:
    from rivermeet.pipelines.nodes import Node

DEFAULT_PARTITIONS = 4
WINDOW_KEY = {"window_start": "BIGINT", "window_end": "BIGINT"}
_N = TypeVar("_N", bound="Node")


def check_columns(node: Node, name: str, columns: Mapping[str, Any], *keys: Mapping[str, str]) -> None:
    """Refuse a value without columns, or with one whose name is taken."""
    from rivermeet.pipelines.nodes import RESERVED

    taken = [*node.key, *(column for key in keys for column in key)]
    clash = [c for c in columns if c in taken or c in RESERVED]
    if not columns:
        raise node.refuse(name, "select has no columns; name at least one")
    if clash:
        raise node.refuse(
            name,
            f"select names {listed(clash)}, which the result has already (key columns {listed(taken)}, "
            f"and {listed(RESERVED)}); choose other names",
        )


def key_types(node: Node, name: str, key: Mapping[str, Expr], value: tuple[str, ...]) -> dict[str, str]:
    """Column to type of a declared key, refused where a name is taken."""
    from rivermeet.pipelines.nodes import RESERVED

    if not key or not isinstance(key, Mapping) or not all(isinstance(e, Expr) for e in key.values()):
        raise node.refuse(name, f"key={key!r} must give each key column as expr(sql, TYPE)")
    clash = [column for column in key if column in value or column in RESERVED]
    if clash:
        raise node.refuse(name, f"key names {listed(clash)}, which the result has already; choose other names")
    return {column: e.type for column, e in key.items()}


def checked_partitions(node: Node, name: str, partitions: int | None) -> int:
    """The declared number of partitions, or else the node's own."""
    if partitions is not None and partitions < 1:
        raise node.refuse(name, f"partitions is {partitions}; give 1 or more")
    return partitions or node.partitions or DEFAULT_PARTITIONS


def history_ms(node: Node, name: str, history: str | int | None) -> int | None:
    """History retention of a versioned table, in ms."""
    if history is None:
        return None
    kept = duration_ms(history)
    if kept < 0:
        raise node.refuse(name, f"history is {kept} ms; make it 0 or more")
    return kept


def add_node(kind: type[_N], of: Node, name: str, spec: Operation, value: Any, **fields: Any) -> _N:
    """A node computed from ``of``, with its key and partitions unless ``fields`` say otherwise."""
    fields = {"key": of.key, "partitions": of.partitions} | fields
    return of.pipeline.add(kind(pipeline=of.pipeline, name=name, value=tuple(value), origin=spec, **fields))


def node_like(node: _N, name: str, spec: Operation, value: tuple[str, ...], fold: str | None = None) -> _N:
    """A node of the same kind, with the same windows and history."""
    from rivermeet.pipelines.nodes import Table, WindowedTable

    extra: dict[str, Any] = {"windows": node.windows} if isinstance(node, WindowedTable) else {}
    if isinstance(node, Table):
        # Or a join would take a record that is older than its row for the row's update (KIP-914).
        extra["history"] = node.history
    return add_node(type(node), node, name, spec, value, fold=fold, **extra)
