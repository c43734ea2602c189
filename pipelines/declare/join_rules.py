"""What several joins have in common: their profiles, and the options that all of them check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from rivermeet.pipelines.declare.nodes import WINDOW_KEY, check_columns
from rivermeet.pipelines.errors import listed
from rivermeet.pipelines.joins import (
    Cache,
    ForeignKeyJoin,
    GlobalGlobalJoin,
    How,
    Join,
    OneToManyJoin,
    Semantics,
    StreamGlobalJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
    ValueExpr,
)
from rivermeet.pipelines.source import quoted
from rivermeet.pipelines.window import TimeWindows

if TYPE_CHECKING:
    from rivermeet.pipelines.nodes import Node, Table, WindowedTable

Select = Mapping[str, ValueExpr]
PROFILES: Mapping[type[Join], tuple[str, ...]] = {
    StreamStreamJoin: get_args(Semantics),
    StreamTableJoin: get_args(Semantics),
    StreamGlobalJoin: ("3.1", "0.10.2", "kafka-4"),
    TableTableJoin: get_args(Semantics),
    ForeignKeyJoin: ("3.1", "0.10.2", "kafka-4"),
    OneToManyJoin: ("3.1",),
    GlobalGlobalJoin: ("3.1",),
}
"""Profiles that a family has: the releases that offered it."""

_J = TypeVar("_J", bound=Join)


def join_of(rule: Callable[..., _J], left: Node, how: How, right: Node, name: str, options: Mapping[str, Any]) -> _J:
    """The join that a rule makes of the options, all of which it must know."""
    known = [p.name for p in signature(rule).parameters.values() if p.kind is p.KEYWORD_ONLY]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise left.refuse(
            name,
            f"the join of a {kind_of(left)} with a {kind_of(right)} has no option {listed(unknown)}; "
            f"it has {listed(known)}",
        )
    return rule(left, how, right, name, **options)


def common_fields(
    family: type[Join],
    left: Node,
    how: How,
    right: Node,
    name: str,
    select: Select | None,
    semantics: str,
    max_task_idle_ms: int | None,
) -> dict[str, Any]:
    """The fields that all joins share, checked."""
    if semantics not in PROFILES[family]:
        raise left.refuse(
            name, f"semantics={semantics!r}: a {family.family} join has the profiles {listed(PROFILES[family])}"
        )
    if max_task_idle_ms is not None and max_task_idle_ms < 0:
        raise left.refuse(name, f"max_task_idle_ms is {max_task_idle_ms}; give 0 or more, or None to wait for ever")
    check_one_pipeline(left, right, name)
    if select is None:
        both = sorted(set(left.value) & set(right.value))
        if both:
            raise left.refuse(
                name,
                f"'{left.name}' and '{right.name}' both have {listed(both)}; "
                "give select={output column: expression over left.* and right.*}",
            )
        select = {c: f"left.{quoted(c)}" for c in left.value} | {c: f"right.{quoted(c)}" for c in right.value}
    check_columns(left, name, select, *([right.key] if family is OneToManyJoin else []))
    return {
        "left": left,
        "how": how,
        "right": right,
        "select": select,
        "semantics": semantics,
        "max_task_idle_ms": max_task_idle_ms,
    }


def check_one_pipeline(left: Node, right: Node, name: str) -> None:
    """Refuse a join of two pipelines."""
    if left.pipeline is not right.pipeline:
        raise left.refuse(
            name, f"'{right.name}' belongs to pipeline '{right.pipeline.name}'; take both nodes of one pipeline"
        )


def kind_of(node: Node) -> str:
    """What a node is, in words."""
    return node.kind.replace("_", " ")


def check_copartitioned(left: Node, right: Node, name: str) -> None:
    """Refuse inputs with other keys or another number of partitions."""
    if left.partitions != right.partitions or dict(left.key) != dict(right.key):
        raise left.refuse(
            name,
            f"not co-partitioned: '{left.name}' has {_count(left)} and key {dict(left.key)}, "
            f"'{right.name}' has {_count(right)} and key {dict(right.key)}; "
            "declare both with the same key columns, types and partitions, or repartition a stream with select_key()",
        )


def _count(node: Node) -> str:
    """How many partitions a node has, as a message says it."""
    return f"{node.partitions} partitions" if node.partitions else "the partitions of its topic"


def check_versioned(left: Node, name: str, semantics: str, *tables: Table) -> None:
    """Refuse versioned tables in profiles that had none."""
    old = [t.name for t in tables if t.history is not None]
    if old and semantics in ("0.10.0", "0.10.2"):
        raise left.refuse(name, f"{listed(old)} has a history, which profile {semantics!r} does not know (KIP-889)")


def checked_cache(node: Node, name: str, cache: Cache | None) -> Cache | None:
    """The cache, refused where it is none of those there are."""
    if cache is not None and cache not in get_args(Cache):
        raise node.refuse(name, f"cache={cache!r} is not one of {listed(get_args(Cache))}, or None")
    return cache


def key_expressions(
    left: Node, right: Node, name: str, option: str, given: str | Mapping[str, str] | None
) -> Mapping[str, str]:
    """One expression per key column of ``right``."""
    columns = list(right.key)
    if isinstance(given, str) and len(columns) == 1:
        return {columns[0]: given}
    if isinstance(given, Mapping) and set(given) == set(columns):
        return {column: given[column] for column in columns}
    raise left.refuse(
        name,
        f"{option}={given!r} must give one SQL expression for each key column of '{right.name}': {listed(columns)}",
    )


def window_of(left: Node, right: WindowedTable, name: str, options: dict[str, Any]) -> dict[str, str]:
    """Key of the windowed row that a left record picks; takes ``window_start`` out of the options."""
    start = options.pop("window_start", None)
    if start is None or not isinstance(right.windows, TimeWindows):
        raise left.refuse(
            name,
            f"'{right.name}' is a windowed table: give window_start= as SQL over the left record, in ms"
            if start is None
            else f"'{right.name}' has sliding windows, which start anywhere; only those of a fixed grid can be picked",
        )
    own = {column: quoted(column) for column in right.key if column not in WINDOW_KEY}
    return {**own, "window_start": start, "window_end": f"({start}) + {right.windows.size}"}
