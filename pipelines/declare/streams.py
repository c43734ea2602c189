"""Joins that a stream begins: with a stream, a table, a windowed table, a global table or a view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from rivermeet.pipelines.declare.join_rules import (
    Select,
    check_copartitioned,
    check_versioned,
    common_fields,
    join_of,
    key_expressions,
    kind_of,
    window_of,
)
from rivermeet.pipelines.declare.nodes import WINDOW_KEY, add_node
from rivermeet.pipelines.errors import listed
from rivermeet.pipelines.joins import (
    Bootstrap,
    How,
    Join,
    Semantics,
    StreamGlobalJoin,
    StreamStreamJoin,
    StreamTableJoin,
)
from rivermeet.pipelines.source import quoted
from rivermeet.pipelines.window import JoinWindow, duration_ms

if TYPE_CHECKING:
    from rivermeet.pipelines.nodes import GlobalTable, Node, Stream, Table, WindowedTable


def join_stream(left: Stream, how: How, other: Node, name: str | None, **options: Any) -> Stream:
    """A stream joined with a stream, table, windowed table, global table or view."""
    from rivermeet.pipelines.nodes import GlobalTable, Stream, Table, WindowedTable

    name = name or f"{left.name}_{other.name}"
    if isinstance(other, Stream):
        spec: Join = join_of(_stream_stream, left, how, other, name, options)
    elif how == "outer":
        raise left.refuse(
            name,
            f"a stream and a {kind_of(other)} have no outer join: only the stream's records cause rows, "
            "so nothing could report a row of the table that none looked up; choose join or left_join",
        )
    elif isinstance(other, GlobalTable):
        spec = join_of(_stream_global, left, how, other, name, options)
    elif isinstance(other, WindowedTable):
        spec = _stream_windowed(left, how, other, name, **options)
    elif isinstance(other, Table):
        spec = join_of(_stream_table, left, how, other, name, options)
    else:
        raise left.refuse(name, f"a stream joins a stream, table or global table, and '{other.name}' is none")
    return add_node(Stream, left, name, spec, spec.select)


def _stream_stream(
    left: Stream,
    how: How,
    right: Stream,
    name: str,
    *,
    window: JoinWindow | None = None,
    select: Select | None = None,
    semantics: Semantics = "3.1",
    max_task_idle_ms: int | None = 0,
    eager: bool = False,
    optimized: bool = False,
) -> StreamStreamJoin:
    if not isinstance(window, JoinWindow):
        raise left.refuse(name, "a stream-stream join needs window=JoinWindow(before, after, grace)")
    if (eager or optimized) and semantics != "kafka-4":
        raise left.refuse(name, f"eager and optimized are variants of 'kafka-4', and semantics is {semantics!r}")
    if optimized and (how != "inner" or left is not right):
        raise left.refuse(name, "optimized is the inner self-join's operator; join the stream with itself")
    check_copartitioned(left, right, name)
    common = common_fields(StreamStreamJoin, left, how, right, name, select, semantics, max_task_idle_ms)
    return StreamStreamJoin(window=window, eager=eager, optimized=optimized, **common)


def _stream_table(
    left: Stream,
    how: How,
    right: Table,
    name: str,
    *,
    grace: str | int | None = None,
    key: Mapping[str, str] | None = None,
    select: Select | None = None,
    semantics: Semantics = "3.1",
    max_task_idle_ms: int | None = 0,
) -> StreamTableJoin:
    check_copartitioned(left, right, name)
    waits = None if grace is None else duration_ms(grace)
    if waits is not None and (right.history is None or not 0 <= waits <= right.history):
        raise left.refuse(
            name,
            f"grace is {waits} ms, and '{right.name}' has a history of {right.history} ms: records can only wait for "
            "a versioned table, no longer than it remembers; declare it with history= of at least the grace",
        )
    if semantics == "0.10.0" and how == "inner":
        raise left.refuse(name, "profile '0.10.0' has no inner stream-table join; choose left_join or a later profile")
    check_versioned(left, name, semantics, right)
    common = common_fields(StreamTableJoin, left, how, right, name, select, semantics, max_task_idle_ms)
    mapper = key or {column: quoted(column) for column in right.key}
    return StreamTableJoin(key=mapper, grace=waits, **common)


def _stream_windowed(left: Stream, how: How, right: WindowedTable, name: str, **options: Any) -> StreamTableJoin:
    if how != "left":
        raise left.refuse(
            name,
            "a stream and a windowed table have only a left join: each record picks a window; choose left_join",
        )
    window = window_of(left, right, name, options)
    own = [column for column in right.key if column not in WINDOW_KEY]
    if own != list(left.key) or left.partitions != right.partitions:
        raise left.refuse(
            name,
            f"not co-partitioned: '{left.name}' has key {listed(left.key)} in {left.partitions} partitions, "
            f"'{right.name}' windows of {listed(own)} in {right.partitions}; repartition with select_key()",
        )
    taken = {"select": None, "semantics": "3.1", "max_task_idle_ms": 0}
    if set(options) - set(taken):
        raise left.refuse(name, f"a join with a windowed table has no option {listed(set(options) - set(taken))}")
    common = common_fields(StreamTableJoin, left, how, right, name, **{**taken, **options})
    return StreamTableJoin(key=window, **common)


def _stream_global(
    left: Stream,
    how: How,
    right: GlobalTable,
    name: str,
    *,
    key: str | Mapping[str, str] | None = None,
    select: Select | None = None,
    semantics: Semantics = "3.1",
    bootstrap: Bootstrap = "epoch",
    max_task_idle_ms: int | None = 0,
) -> StreamGlobalJoin:
    if bootstrap not in get_args(Bootstrap):
        raise left.refuse(name, f"bootstrap={bootstrap!r} is not one of {listed(get_args(Bootstrap))}")
    if right.kind == "global_view" and bootstrap != "epoch":
        raise left.refuse(name, f"'{right.name}' is a view, resolved as its tables stand; leave bootstrap='epoch'")
    mapper = key_expressions(left, right, name, "key", key)
    common = common_fields(StreamGlobalJoin, left, how, right, name, select, semantics, max_task_idle_ms)
    return StreamGlobalJoin(key=mapper, bootstrap=bootstrap, **common)
