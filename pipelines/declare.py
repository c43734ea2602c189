"""What may be declared: every verb's checks, and the frozen value that comes out.

A message names the pipeline, the node, and what would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pipelines.errors import listed
from pipelines.joins import (
    Bootstrap,
    Cache,
    ForeignKeyJoin,
    GlobalGlobalJoin,
    How,
    Join,
    OneToManyJoin,
    Operation,
    Semantics,
    StreamGlobalJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
    ValueExpr,
)
from pipelines.operations import (
    Aggregation,
    Filter,
    MapValues,
    Merge,
    SelectKey,
    TableAggregate,
    ToStream,
    ToTable,
    WindowedAggregate,
)
from pipelines.source import Expr, quoted
from pipelines.window import JoinWindow, SlidingWindows, TimeWindows, duration_ms

if TYPE_CHECKING:
    from pipelines.grouped import GroupedStream, GroupedTable
    from pipelines.nodes import GlobalTable, GlobalView, Node, Stream, Table, WindowedTable

Select = Mapping[str, ValueExpr]
DEFAULT_PARTITIONS = 4
WINDOW_KEY = {"window_start": "BIGINT", "window_end": "BIGINT"}
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
_N = TypeVar("_N", bound="Node")
_J = TypeVar("_J", bound=Join)


def join_stream(left: Stream, how: How, other: Node, name: str | None, **options: Any) -> Stream:
    """A stream joined with a stream, table, windowed table, global table or view."""
    from pipelines.nodes import GlobalTable, Stream, Table, WindowedTable

    name = name or f"{left.name}_{other.name}"
    if isinstance(other, Stream):
        spec: Join = _made(_stream_stream, left, how, other, name, options)
    elif how == "outer":
        raise left.refuse(
            name,
            f"a stream and a {_kind(other)} have no outer join: only the stream's records cause rows, "
            "so nothing could report a row of the table that none looked up; choose join or left_join",
        )
    elif isinstance(other, GlobalTable):
        spec = _made(_stream_global, left, how, other, name, options)
    elif isinstance(other, WindowedTable):
        spec = _stream_windowed(left, how, other, name, **options)
    elif isinstance(other, Table):
        spec = _made(_stream_table, left, how, other, name, options)
    else:
        raise left.refuse(name, f"a stream joins a stream, table or global table, and '{other.name}' is none")
    return _add(Stream, left, name, spec, spec.select)


def join_table(left: Table, how: How, other: Node, name: str | None, **options: Any) -> Table:
    """A table joined with a table: on the key, on a foreign key, or window with window."""
    from pipelines.nodes import Table, WindowedTable

    name, fold = name or f"{left.name}_{other.name}", options.pop("fold", None)
    if not isinstance(other, Table):
        why = (
            "a stream keeps no rows for a table's update to look up" if other.kind == "stream" else "it never triggers"
        )
        raise left.refuse(
            name,
            f"a table joins a table, and '{other.name}' is a {_kind(other)}: {why}; "
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
        spec: Join = _made(_foreign_key, left, how, other, name, options)
    elif isinstance(other, WindowedTable) and not isinstance(left, WindowedTable):
        if how != "left":
            raise left.refuse(
                name,
                f"a table and a windowed table have only a left join: the row picks its window; '{other.name}' has "
                "windows that no row picks. Choose left_join with window_start",
            )
        picked = {"foreign_key": _window_of(left, other, name, options)}
        spec = _made(_foreign_key, left, how, other, name, options | picked)
    elif options.get("foreign_key") is not None:
        if how == "outer":
            raise left.refuse(name, "a foreign-key join has no outer form; choose join or left_join")
        spec = _made(_foreign_key, left, how, other, name, options)
    else:
        spec = _made(_table_table, left, how, other, name, options)
    if isinstance(left, WindowedTable):
        return _add(WindowedTable, left, name, spec, spec.select, windows=left.windows, fold=fold)
    return _add(Table, left, name, spec, spec.select, fold=fold)


def one_to_many(one: Table, many: Table, name: str | None, **options: Any) -> Table:
    """A table joined with the many rows that point to it, keyed by both keys."""
    from pipelines.nodes import Table

    name, fold = name or f"{one.name}_{many.name}", options.pop("fold", None)
    if not isinstance(many, Table):
        raise one.refuse(
            name, f"a table is joined with the many rows of a table, and '{many.name}' is a {_kind(many)}; use table()"
        )
    both = [column for column in one.key if column in many.key]
    if both:
        raise one.refuse(
            name,
            f"the result is keyed by both keys, and '{one.name}' and '{many.name}' both have {listed(both)}; "
            "rename the key columns of one of them",
        )
    spec = _made(_one_to_many, one, "inner", many, name, options)
    return _add(Table, one, name, spec, spec.select, key={**one.key, **many.key}, fold=fold)


def join_global(left: GlobalTable, how: How, other: Node, name: str | None, **options: Any) -> GlobalView:
    """A view over two global tables."""
    from pipelines.nodes import GlobalTable, GlobalView

    name = name or f"{left.name}_{other.name}"
    if not isinstance(other, GlobalTable):
        raise left.refuse(
            name,
            f"a global table joins a global table, and '{other.name}' is a {_kind(other)}: a global "
            f"table's update never triggers; start from '{other.name}'",
        )
    if how == "outer":
        raise left.refuse(name, "global tables have no outer join: nothing would find a right row that stands alone")
    spec = _made(_global_global, left, how, other, name, options)
    return _add(GlobalView, left, name, spec, spec.select)


def filtered(node: _N, where: str, name: str) -> _N:
    """A stream or table of the records that pass."""
    return _like(node, name, Filter(input=node, where=where), node.value)


def mapped_values(node: _N, select: Select, name: str) -> _N:
    """A stream or table with another value."""
    _columns(node, name, select)
    functions = [column for column, e in select.items() if not isinstance(e, str)]
    if functions:
        raise node.refuse(
            name, f"select gives {listed(functions)} as no SQL text; map_values takes SQL over key and value columns"
        )
    return _like(node, name, MapValues(input=node, select=select), tuple(select))


def selected_key(stream: Stream, key: Mapping[str, Expr], name: str, partitions: int | None) -> Stream:
    """A stream under another key."""
    from pipelines.nodes import Stream

    kinds = _key(stream, name, key, stream.value)
    count = _partitions(stream, name, partitions)
    spec = SelectKey(input=stream, key=key, partitions=count)
    return _add(Stream, stream, name, spec, stream.value, key=kinds, partitions=count)


def merged(left: Stream, right: Stream, name: str) -> Stream:
    """Two streams as one."""
    from pipelines.nodes import Stream

    if not isinstance(right, Stream):
        raise left.refuse(
            name, f"a stream merges with a stream, and '{right.name}' is a {_kind(right)}; read it with to_stream()"
        )
    _one_pipeline(left, right, name)
    if dict(left.key) != dict(right.key) or left.value != right.value or left.partitions != right.partitions:
        raise left.refuse(
            name,
            f"'{left.name}' has key {dict(left.key)}, value {listed(left.value)}, {left.partitions} partitions; "
            f"'{right.name}' has key {dict(right.key)}, value {listed(right.value)}, {right.partitions}: make them "
            "equal with map_values() and select_key()",
        )
    return _add(Stream, left, name, Merge(left=left, right=right), left.value)


def to_table(stream: Stream, name: str, history: str | int | None, fold: str | None = None) -> Table:
    """A stream read as a table's changelog."""
    from pipelines.nodes import Table

    return _add(
        Table, stream, name, ToTable(input=stream), stream.value, history=history_ms(stream, name, history), fold=fold
    )


def to_stream(table: Table, name: str) -> Stream:
    """A table's changelog read as a stream."""
    from pipelines.nodes import Stream

    return _add(Stream, table, name, ToStream(input=table), table.value)


def grouped_stream(stream: Stream) -> GroupedStream:
    """Records by their key."""
    from pipelines.grouped import GroupedStream

    return GroupedStream(stream)


def grouped_table(table: Table, key: Mapping[str, Expr]) -> GroupedTable:
    """Rows by another key."""
    from pipelines.grouped import GroupedTable

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
    from pipelines.nodes import Table

    kinds = _key(table, name, key, tuple(aggregations))
    _columns(table, name, aggregations)
    count = _partitions(table, name, partitions)
    spec = TableAggregate(input=table, key=key, aggregations=aggregations, partitions=count)
    return _add(Table, table, name, spec, aggregations, key=kinds, partitions=count, fold=fold)


def windowed_aggregate(
    stream: Stream,
    windows: TimeWindows | SlidingWindows,
    aggregations: Mapping[str, Aggregation],
    name: str,
    fold: str | None = None,
) -> WindowedTable:
    """A stream aggregated by key and window."""
    from pipelines.nodes import WindowedTable

    _columns(stream, name, aggregations)
    clash = [column for column in WINDOW_KEY if column in stream.key or column in aggregations]
    if clash:
        raise stream.refuse(name, f"{listed(clash)} is what the windows are called; rename the column")
    spec = WindowedAggregate(input=stream, windows=windows, aggregations=aggregations)
    key = {**stream.key, **WINDOW_KEY}
    return _add(WindowedTable, stream, name, spec, aggregations, key=key, windows=windows, fold=fold)


def history_ms(node: Node, name: str, history: str | int | None) -> int | None:
    """History retention of a versioned table, in ms."""
    if history is None:
        return None
    kept = duration_ms(history)
    if kept < 0:
        raise node.refuse(name, f"history is {kept} ms; make it 0 or more")
    return kept


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
    _copartitioned(left, right, name)
    common = _common(StreamStreamJoin, left, how, right, name, select, semantics, max_task_idle_ms)
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
    _copartitioned(left, right, name)
    waits = None if grace is None else duration_ms(grace)
    if waits is not None and (right.history is None or not 0 <= waits <= right.history):
        raise left.refuse(
            name,
            f"grace is {waits} ms, and '{right.name}' has a history of {right.history} ms: records can only wait for "
            "a versioned table, no longer than it remembers; declare it with history= of at least the grace",
        )
    if semantics == "0.10.0" and how == "inner":
        raise left.refuse(name, "profile '0.10.0' has no inner stream-table join; choose left_join or a later profile")
    _versioned_since_4(left, name, semantics, right)
    common = _common(StreamTableJoin, left, how, right, name, select, semantics, max_task_idle_ms)
    mapper = key or {column: quoted(column) for column in right.key}
    return StreamTableJoin(key=mapper, grace=waits, **common)


def _stream_windowed(left: Stream, how: How, right: WindowedTable, name: str, **options: Any) -> StreamTableJoin:
    if how != "left":
        raise left.refuse(
            name,
            "a stream and a windowed table have only a left join: each record picks a window; choose left_join",
        )
    window = _window_of(left, right, name, options)
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
    common = _common(StreamTableJoin, left, how, right, name, **{**taken, **options})
    return StreamTableJoin(key=window, **common)


def _window_of(left: Node, right: WindowedTable, name: str, options: dict[str, Any]) -> dict[str, str]:
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
    mapper = _mapped(left, right, name, "key", key)
    common = _common(StreamGlobalJoin, left, how, right, name, select, semantics, max_task_idle_ms)
    return StreamGlobalJoin(key=mapper, bootstrap=bootstrap, **common)


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
    from pipelines.nodes import WindowedTable

    shift = None if window_map is None else duration_ms(window_map)
    if shift is not None and not isinstance(left, WindowedTable):
        raise left.refuse(name, f"window_map is for windowed tables, and '{left.name}' is a {left.kind}")
    if isinstance(left, WindowedTable) and isinstance(right, WindowedTable) and left.windows != right.windows:
        raise left.refuse(
            name,
            f"'{left.name}' has windows {left.windows}, '{right.name}' {right.windows}: they have no windows in common",
        )
    _copartitioned(left, right, name)
    _versioned_since_4(left, name, semantics, left, right)
    common = _common(TableTableJoin, left, how, right, name, select, semantics, max_task_idle_ms)
    cached = {"cache": _cache(left, name, cache), "materialized": materialized}
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
    extractor = _mapped(left, right, name, "foreign_key", foreign_key)
    _versioned_since_4(left, name, semantics, left, right)
    common = _common(ForeignKeyJoin, left, how, right, name, select, semantics, max_task_idle_ms)
    cached = {"cache": _cache(left, name, cache), "materialized": materialized}
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
    extractor = _mapped(many, one, name, "foreign_key", foreign_key)
    common = _common(OneToManyJoin, one, how, many, name, select, semantics, max_task_idle_ms)
    return OneToManyJoin(foreign_key=extractor, cache=_cache(one, name, cache), **common)


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
    common = _common(GlobalGlobalJoin, left, how, right, name, select, semantics, 0)
    return GlobalGlobalJoin(key=_mapped(left, right, name, "key", key), **common)


def _made(rule: Callable[..., _J], left: Node, how: How, right: Node, name: str, options: Mapping[str, Any]) -> _J:
    """The join that a rule makes of the options, all of which it must know."""
    known = [p.name for p in signature(rule).parameters.values() if p.kind is p.KEYWORD_ONLY]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise left.refuse(
            name,
            f"the join of a {_kind(left)} with a {_kind(right)} has no option {listed(unknown)}; "
            f"it has {listed(known)}",
        )
    return rule(left, how, right, name, **options)


def _common(
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
    _one_pipeline(left, right, name)
    if select is None:
        both = sorted(set(left.value) & set(right.value))
        if both:
            raise left.refuse(
                name,
                f"'{left.name}' and '{right.name}' both have {listed(both)}; "
                "give select={output column: expression over left.* and right.*}",
            )
        select = {c: f"left.{quoted(c)}" for c in left.value} | {c: f"right.{quoted(c)}" for c in right.value}
    _columns(left, name, select, *([right.key] if family is OneToManyJoin else []))
    return {
        "left": left,
        "how": how,
        "right": right,
        "select": select,
        "semantics": semantics,
        "max_task_idle_ms": max_task_idle_ms,
    }


def _one_pipeline(left: Node, right: Node, name: str) -> None:
    if left.pipeline is not right.pipeline:
        raise left.refuse(
            name, f"'{right.name}' belongs to pipeline '{right.pipeline.name}'; take both nodes of one pipeline"
        )


def _kind(node: Node) -> str:
    """What a node is, in words."""
    return node.kind.replace("_", " ")


def _columns(node: Node, name: str, columns: Mapping[str, Any], *keys: Mapping[str, str]) -> None:
    from pipelines.nodes import RESERVED

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


def _key(node: Node, name: str, key: Mapping[str, Expr], value: tuple[str, ...]) -> dict[str, str]:
    from pipelines.nodes import RESERVED

    if not key or not isinstance(key, Mapping) or not all(isinstance(e, Expr) for e in key.values()):
        raise node.refuse(name, f"key={key!r} must give each key column as expr(sql, TYPE)")
    clash = [column for column in key if column in value or column in RESERVED]
    if clash:
        raise node.refuse(name, f"key names {listed(clash)}, which the result has already; choose other names")
    return {column: e.type for column, e in key.items()}


def _copartitioned(left: Node, right: Node, name: str) -> None:
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


def _versioned_since_4(left: Node, name: str, semantics: str, *tables: Table) -> None:
    old = [t.name for t in tables if t.history is not None]
    if old and semantics in ("0.10.0", "0.10.2"):
        raise left.refuse(name, f"{listed(old)} has a history, which profile {semantics!r} does not know (KIP-889)")


def _cache(node: Node, name: str, cache: Cache | None) -> Cache | None:
    if cache is not None and cache not in get_args(Cache):
        raise node.refuse(name, f"cache={cache!r} is not one of {listed(get_args(Cache))}, or None")
    return cache


def _mapped(
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


def _partitions(node: Node, name: str, partitions: int | None) -> int:
    if partitions is not None and partitions < 1:
        raise node.refuse(name, f"partitions is {partitions}; give 1 or more")
    return partitions or node.partitions or DEFAULT_PARTITIONS


def _add(kind: type[_N], of: Node, name: str, spec: Operation, value: Any, **fields: Any) -> _N:
    """A node computed from ``of``, with its key and partitions unless ``fields`` say otherwise."""
    fields = {"key": of.key, "partitions": of.partitions} | fields
    return of.pipeline.add(kind(pipeline=of.pipeline, name=name, value=tuple(value), origin=spec, **fields))


def _like(node: _N, name: str, spec: Operation, value: tuple[str, ...]) -> _N:
    from pipelines.nodes import Table, WindowedTable

    extra: dict[str, Any] = {"windows": node.windows} if isinstance(node, WindowedTable) else {}
    if isinstance(node, Table):
        # Or a join would take a record that is older than its row for the row's update (KIP-914).
        extra["history"] = node.history
    return _add(type(node), node, name, spec, value, **extra)
