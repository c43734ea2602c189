"""Joins that a table begins: on its key, on a foreign key, window with window, and with many rows that point to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rivermeet.pipelines.declare.join_rules import (
    Select,
    check_copartitioned,
    check_versioned,
    checked_cache,
    common_fields,
    join_of,
    key_expressions,
    kind_of,
    window_of,
)
from rivermeet.pipelines.declare.nodes import WINDOW_KEY, add_node
from rivermeet.pipelines.errors import listed
from rivermeet.pipelines.joins import (
    Cache,
    ForeignKeyJoin,
    How,
    Join,
    OneToManyJoin,
    Semantics,
    TableTableJoin,
)
from rivermeet.pipelines.source import quoted
from rivermeet.pipelines.window import duration_ms

if TYPE_CHECKING:
    from rivermeet.pipelines.nodes import Node, Table


def join_table(left: Table, how: How, other: Node, name: str | None, **options: Any) -> Table:
    """A table joined with a table: on the key, on a foreign key, or window with window."""
    from rivermeet.pipelines.nodes import Table, WindowedTable

    name, fold = name or f"{left.name}_{other.name}", options.pop("fold", None)
    if not isinstance(other, Table):
        why = (
            "a stream keeps no rows for a table's update to look up" if other.kind == "stream" else "it never triggers"
        )
        raise left.refuse(
            name,
            f"a table joins a table, and '{other.name}' is a {kind_of(other)}: {why}; "
            "start from the stream, or declare it with table()",
        )
    if isinstance(left, WindowedTable) and not isinstance(other, WindowedTable):
        if how == "outer":
            raise left.refuse(
                name,
                f"a windowed table and a table have no outer join: a row of '{other.name}' alone has no window; "
                "choose join or left_join",
            )
        own = {column: quoted(column) for column in left.key if column not in WINDOW_KEY}
        same = list(own) == list(other.key)
        options.setdefault("foreign_key", own if same else None)
        spec: Join = join_of(_foreign_key, left, how, other, name, options)
    elif isinstance(other, WindowedTable) and not isinstance(left, WindowedTable):
        if how != "left":
            raise left.refuse(
                name,
                f"a table and a windowed table have only a left join: the row picks its window; '{other.name}' has "
                "windows that no row picks. Choose left_join with window_start",
            )
        picked = {"foreign_key": window_of(left, other, name, options)}
        spec = join_of(_foreign_key, left, how, other, name, options | picked)
    elif options.get("foreign_key") is not None:
        if how == "outer":
            raise left.refuse(name, "a foreign-key join has no outer form; choose join or left_join")
        spec = join_of(_foreign_key, left, how, other, name, options)
    else:
        spec = join_of(_table_table, left, how, other, name, options)
    if isinstance(left, WindowedTable):
        return add_node(WindowedTable, left, name, spec, spec.select, windows=left.windows, fold=fold)
    return add_node(Table, left, name, spec, spec.select, fold=fold)


def one_to_many(one: Table, many: Table, name: str | None, **options: Any) -> Table:
    """A table joined with the many rows that point to it, keyed by both keys."""
    from rivermeet.pipelines.nodes import Table

    name, fold = name or f"{one.name}_{many.name}", options.pop("fold", None)
    if not isinstance(many, Table):
        raise one.refuse(
            name,
            f"a table is joined with the many rows of a table, and '{many.name}' is a {kind_of(many)}; use table()",
        )
    both = [column for column in one.key if column in many.key]
    if both:
        raise one.refuse(
            name,
            f"the result is keyed by both keys, and '{one.name}' and '{many.name}' both have {listed(both)}; "
            "rename the key columns of one of them",
        )
    spec = join_of(_one_to_many, one, "inner", many, name, options)
    return add_node(Table, one, name, spec, spec.select, key={**one.key, **many.key}, fold=fold)


def _table_table(
    left: Table,
    how: How,
    right: Table,
    name: str,
    *,
    foreign_key: None = None,
    select: Select | None = None,
    semantics: Semantics = "3.1",
    cache: Cache | None = None,
    materialized: bool = False,
    window_map: str | int | None = None,
    max_task_idle_ms: int | None = 0,
) -> TableTableJoin:
    from rivermeet.pipelines.nodes import WindowedTable

    shift = None if window_map is None else duration_ms(window_map)
    if shift is not None and not isinstance(left, WindowedTable):
        raise left.refuse(name, f"window_map is for windowed tables, and '{left.name}' is a {left.kind}")
    if isinstance(left, WindowedTable) and isinstance(right, WindowedTable) and left.windows != right.windows:
        raise left.refuse(
            name,
            f"'{left.name}' has windows {left.windows}, '{right.name}' {right.windows}: they have no windows in common",
        )
    check_copartitioned(left, right, name)
    check_versioned(left, name, semantics, left, right)
    common = common_fields(TableTableJoin, left, how, right, name, select, semantics, max_task_idle_ms)
    cached = {"cache": checked_cache(left, name, cache), "materialized": materialized}
    return TableTableJoin(**cached, window_map=shift, **common)


def _foreign_key(
    left: Table,
    how: How,
    right: Table,
    name: str,
    *,
    foreign_key: str | Mapping[str, str] | None = None,
    select: Select | None = None,
    semantics: Semantics = "3.1",
    cache: Cache | None = None,
    materialized: bool = False,
    max_task_idle_ms: int | None = 0,
) -> ForeignKeyJoin:
    extractor = key_expressions(left, right, name, "foreign_key", foreign_key)
    check_versioned(left, name, semantics, left, right)
    common = common_fields(ForeignKeyJoin, left, how, right, name, select, semantics, max_task_idle_ms)
    cached = {"cache": checked_cache(left, name, cache), "materialized": materialized}
    return ForeignKeyJoin(foreign_key=extractor, **cached, **common)


def _one_to_many(
    one: Table,
    how: How,
    many: Table,
    name: str,
    *,
    foreign_key: str | Mapping[str, str] | None = None,
    select: Select | None = None,
    semantics: Semantics = "3.1",
    cache: Cache | None = None,
    max_task_idle_ms: int | None = 0,
) -> OneToManyJoin:
    extractor = key_expressions(many, one, name, "foreign_key", foreign_key)
    common = common_fields(OneToManyJoin, one, how, many, name, select, semantics, max_task_idle_ms)
    return OneToManyJoin(foreign_key=extractor, cache=checked_cache(one, name, cache), **common)
