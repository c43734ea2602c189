"""Joins that a global table begins: views over two of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rivermeet.pipelines.declare.join_rules import Select, common_fields, join_of, key_expressions, kind_of
from rivermeet.pipelines.declare.nodes import add_node
from rivermeet.pipelines.joins import (
    GlobalGlobalJoin,
    How,
    Semantics,
)

if TYPE_CHECKING:
    from rivermeet.pipelines.nodes import GlobalTable, GlobalView, Node


def join_global(left: GlobalTable, how: How, other: Node, name: str | None, **options: Any) -> GlobalView:
    """A view over two global tables."""
    from rivermeet.pipelines.nodes import GlobalTable, GlobalView

    name = name or f"{left.name}_{other.name}"
    if not isinstance(other, GlobalTable):
        raise left.refuse(
            name,
            f"a global table joins a global table, and '{other.name}' is a {kind_of(other)}: a global "
            f"table's update never triggers; start from '{other.name}'",
        )
    if how == "outer":
        raise left.refuse(name, "global tables have no outer join: nothing would find a right row that stands alone")
    spec = join_of(_global_global, left, how, other, name, options)
    return add_node(GlobalView, left, name, spec, spec.select)


def _global_global(
    left: GlobalTable,
    how: How,
    right: GlobalTable,
    name: str,
    *,
    key: str | Mapping[str, str] | None = None,
    select: Select | None = None,
    semantics: Semantics = "3.1",
) -> GlobalGlobalJoin:
    common = common_fields(GlobalGlobalJoin, left, how, right, name, select, semantics, 0)
    return GlobalGlobalJoin(key=key_expressions(left, right, name, "key", key), **common)
