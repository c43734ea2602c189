"""Each family's options, and the functions that turn a verb with options into the value of a join.

| verb of | with | options | value |
|---|---|---|---|
| a stream | a stream | `StreamStreamOptions` | `StreamStreamJoin` |
| | a table | `StreamTableOptions` | `StreamTableJoin` |
| | a windowed table, left only | `StreamWindowedOptions` | `StreamTableJoin` |
| | a global table or view | `StreamGlobalOptions` | `StreamGlobalJoin` |
| a table | a table, or both windowed | `TableTableOptions` | `TableTableJoin` |
| | a table that it refers to | `ForeignKeyOptions` | `ForeignKeyJoin` |
| | a windowed table, left only | `TableWindowedOptions` | `ForeignKeyJoin` |
| | the rows that refer to it | `OneToManyOptions` | `OneToManyJoin` |
| a global table | a global table or view | `GlobalOptions` | `GlobalGlobalJoin` |

The options of a family are defined only here: verbs take them as ``**options: Unpack[…]``, so that type
checkers know them, and an unknown option is refused with the list of valid ones. A join that does not exist is
refused with the pipeline, the node and the alternatives. Held by ``tests/pipelines/test_declare.py`` and
``tests/pipelines/test_verbs.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Required, TypedDict, get_args

from rivermeet.pipelines.errors import list_choices
from rivermeet.pipelines.expressions import quote
from rivermeet.pipelines.joins import (
    Bootstrap,
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
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.window import JoinWindow, TimeWindows, duration_ms

if TYPE_CHECKING:
    from rivermeet.pipelines.nodes import GlobalTable, Node, Stream, Table, WindowedTable

Select = Mapping[str, ValueExpr]
WINDOW_KEY = {"window_start": "BIGINT", "window_end": "BIGINT"}


class JoinOptions(TypedDict, total=False):
    """Options of all joins of streams and tables.

    Attributes
    ----------
    select
        Output column to SQL over ``left.*`` and ``right.*``, or to a function of the two columns. Default: all value
        columns of both.
    semantics
        Profile; default ``"3.1"`` (docs/reference/joins.md).
    max_task_idle_ms
        How long (ms) a record waits while the other input may still send earlier ones: 0, the default, not at all,
        None for ever.
    """

    select: Select | None
    semantics: Semantics
    max_task_idle_ms: int | None


class StreamStreamOptions(JoinOptions, total=False):
    """Two streams.

    Attributes
    ----------
    window
        How far apart records of both sides may be, and how late they may be.
    eager
        Profile ``"kafka-4"``: unmatched rows are emitted immediately, as with the old windows.
    optimized
        Profile ``"kafka-4"``: the operator of an inner self-join.
    """

    window: Required[JoinWindow]
    eager: bool
    optimized: bool


class StreamTableOptions(JoinOptions, total=False):
    """A stream and a table with the same key.

    Attributes
    ----------
    grace
        Duration for which records wait for updates of a versioned table; default: they do not wait.
    key
        Key column of the table to SQL over the record; default: the record's own key.
    """

    grace: str | int | None
    key: Mapping[str, str] | None


class StreamWindowedOptions(JoinOptions, total=False):
    """A stream and a windowed table with the same key.

    Attributes
    ----------
    window_start
        SQL over the record that gives the start (ms) of the window to look up.
    """

    window_start: Required[str]


class StreamGlobalOptions(JoinOptions, total=False):
    """A stream and a global table or view.

    Attributes
    ----------
    key
        SQL over the record that gives the key to look up, or one for each key column of the global table.
    bootstrap
        ``"epoch"`` (default) loads an epoch's updates of the global table before its records; ``"timestamp"``
        interleaves them.
    """

    key: Required[str | Mapping[str, str]]
    bootstrap: Bootstrap


class TableOptions(JoinOptions, total=False):
    """Options of all joins of tables.

    Attributes
    ----------
    cache
        ``"epoch"``: only the net change of a key in an epoch; default: a row for each change.
    fold
        When the result is folded: ``"run"`` or ``"due"``, as in `Node`.
    """

    cache: Cache | None
    fold: str | None


class TableTableOptions(TableOptions, total=False):
    """Two tables of one key, or two windowed tables.

    Attributes
    ----------
    materialized
        Whether the cached result is kept in a store, in profile ``"kafka-4"``.
    window_map
        Of windowed tables: duration by which the right row's window starts later than the left row's (``"-7d"``: the
        same window last week).
    """

    materialized: bool
    window_map: str | int | None


class ForeignKeyOptions(TableOptions, total=False):
    """A table and the table that its rows refer to.

    Attributes
    ----------
    foreign_key
        SQL over the left record that gives the key of the right row, or one for each key column of the right table. Of
        a windowed table: by default the key columns without the window.
    materialized
        As for two tables of one key.
    """

    foreign_key: Required[str | Mapping[str, str]]
    materialized: bool


class TableWindowedOptions(TableOptions, total=False):
    """A table and a windowed table; each row picks a window.

    Attributes
    ----------
    window_start
        SQL over the row that gives the start (ms) of its window.
    materialized
        As for two tables of one key.
    """

    window_start: Required[str]
    materialized: bool


class OneToManyOptions(TableOptions, total=False):
    """A table and the many rows that refer to it.

    Attributes
    ----------
    foreign_key
        SQL over the record of the many that gives the key of the one, or one for each of its key columns.
    """

    foreign_key: Required[str | Mapping[str, str]]


class GlobalOptions(TypedDict, total=False):
    """Two global tables.

    Attributes
    ----------
    key
        SQL over the left row that gives the key to look up, or one for each key column of the right one.
    select, semantics
        As for other joins.
    """

    key: Required[str | Mapping[str, str]]
    select: Select | None
    semantics: Semantics


def stream_stream(left: Stream, how: How, right: Stream, name: str, options: StreamStreamOptions) -> StreamStreamJoin:
    """A stream with a stream."""
    common = validate_common(StreamStreamJoin, StreamStreamOptions, left, how, right, name, options)
    window, semantics = options.get("window"), common["semantics"]
    eager, optimized = options.get("eager", False), options.get("optimized", False)
    if not isinstance(window, JoinWindow):
        raise left.refuse(name, "a stream-stream join needs window=JoinWindow(before, after, grace)")
    if (eager or optimized) and semantics != "kafka-4":
        raise left.refuse(name, f"eager and optimized are variants of 'kafka-4', and semantics is {semantics!r}")
    if optimized and (how != "inner" or left is not right):
        raise left.refuse(name, "optimized is the inner self-join's operator; join the stream with itself")
    validate_copartitioned(left, right, name)
    return StreamStreamJoin(window=window, eager=eager, optimized=optimized, **common)


def stream_table(left: Stream, how: How, right: Table, name: str, options: StreamTableOptions) -> StreamTableJoin:
    """A stream with a table of its key."""
    common = validate_common(StreamTableJoin, StreamTableOptions, left, how, right, name, options)
    validate_copartitioned(left, right, name)
    grace = options.get("grace")
    waits = None if grace is None else duration_ms(grace)
    if waits is not None and (right.history is None or not 0 <= waits <= right.history):
        raise left.refuse(
            name,
            f"grace is {waits} ms, and '{right.name}' has a history of {right.history} ms: records can only wait for "
            "a versioned table, no longer than it remembers; declare it with history= of at least the grace",
        )
    if common["semantics"] == "0.10.0" and how == "inner":
        raise left.refuse(name, "profile '0.10.0' has no inner stream-table join; choose left_join or a later profile")
    mapper = options.get("key") or {column: quote(column) for column in right.key}
    return StreamTableJoin(key=mapper, grace=waits, **common)


def stream_windowed(
    left: Stream, how: How, right: WindowedTable, name: str, options: StreamWindowedOptions
) -> StreamTableJoin:
    """A stream with a windowed table."""
    if how != "left":
        raise left.refuse(
            name,
            "a stream and a windowed table have only a left join: each record picks a window; choose left_join",
        )
    window = pick_window(left, right, name, options)
    own = [column for column in right.key if column not in WINDOW_KEY]
    if own != list(left.key) or left.partitions != right.partitions:
        raise left.refuse(
            name,
            f"not co-partitioned: '{left.name}' has key {list_choices(left.key)} in {count_partitions(left)}, "
            f"'{right.name}' windows of {list_choices(own)} in {count_partitions(right)}; "
            "repartition with select_key()",
        )
    common = validate_common(StreamTableJoin, StreamWindowedOptions, left, how, right, name, options)
    return StreamTableJoin(key=window, **common)


def stream_global(
    left: Stream, how: How, right: GlobalTable, name: str, options: StreamGlobalOptions
) -> StreamGlobalJoin:
    """A stream with a global table or view."""
    common = validate_common(StreamGlobalJoin, StreamGlobalOptions, left, how, right, name, options)
    bootstrap = options.get("bootstrap", "epoch")
    if bootstrap not in get_args(Bootstrap):
        raise left.refuse(name, f"bootstrap={bootstrap!r} is not one of {list_choices(get_args(Bootstrap))}")
    if right.kind == "global_view" and bootstrap != "epoch":
        raise left.refuse(name, f"'{right.name}' is a view, resolved as its tables stand; leave bootstrap='epoch'")
    mapper = key_expressions(left, right, name, "key", options.get("key"))
    return StreamGlobalJoin(key=mapper, bootstrap=bootstrap, **common)


def table_table(left: Table, how: How, right: Table, name: str, options: TableTableOptions) -> TableTableJoin:
    """A table with a table of its key, or a windowed table with a windowed one."""
    common = validate_common(TableTableJoin, TableTableOptions, left, how, right, name, options)
    given = options.get("window_map")
    shift = None if given is None else duration_ms(given)
    ours, theirs = (getattr(table, "windows", None) for table in (left, right))
    if shift is not None and ours is None:
        raise left.refuse(name, f"window_map is for windowed tables, and '{left.name}' is a {left.kind}")
    if ours is not None and theirs is not None and ours != theirs:
        raise left.refuse(
            name, f"'{left.name}' has windows {ours}, '{right.name}' {theirs}: they have no windows in common"
        )
    validate_copartitioned(left, right, name)
    return TableTableJoin(window_map=shift, **_cache_options(left, name, options), **common)


def foreign_key(
    left: Table,
    how: How,
    right: Table,
    name: str,
    options: ForeignKeyOptions | TableWindowedOptions,
    pointing: Mapping[str, str] | None = None,
    known: type = ForeignKeyOptions,
) -> ForeignKeyJoin:
    """A table with the table that its rows refer to; ``pointing`` replaces its ``foreign_key``."""
    common = validate_common(ForeignKeyJoin, known, left, how, right, name, options)
    if how == "outer":
        raise left.refuse(name, "a foreign-key join has no outer form; choose join or left_join")
    extractor = pointing or key_expressions(left, right, name, "foreign_key", options.get("foreign_key"))
    return ForeignKeyJoin(foreign_key=extractor, **_cache_options(left, name, options), **common)


def join_windowed_table(
    left: WindowedTable, how: How, right: Table, name: str, options: ForeignKeyOptions
) -> ForeignKeyJoin:
    """A windowed table with a table, by default on its key without the window."""
    if how == "outer":
        raise left.refuse(
            name,
            f"a windowed table and a table have no outer join: a row of '{right.name}' alone has no window; "
            "choose join or left_join",
        )
    own = {column: quote(column) for column in left.key if column not in WINDOW_KEY}
    same = "foreign_key" not in options and list(own) == list(right.key)
    return foreign_key(left, how, right, name, options, own if same else None)


def table_windowed(
    left: Table, how: How, right: WindowedTable, name: str, options: TableWindowedOptions
) -> ForeignKeyJoin:
    """A table with a windowed table; each row picks a window."""
    if how != "left":
        raise left.refuse(
            name,
            f"a table and a windowed table have only a left join: the row picks its window; '{right.name}' has "
            "windows that no row picks. Choose left_join with window_start",
        )
    picked = pick_window(left, right, name, options)
    return foreign_key(left, how, right, name, options, picked, TableWindowedOptions)


def one_to_many(one: Table, many: Table, name: str, options: OneToManyOptions) -> OneToManyJoin:
    """A table with the many rows that refer to it."""
    both = [column for column in one.key if column in many.key]
    if both:
        raise one.refuse(
            name,
            f"the result is keyed by both keys, and '{one.name}' and '{many.name}' both have {list_choices(both)}; "
            "rename the key columns of one of them",
        )
    common = validate_common(OneToManyJoin, OneToManyOptions, one, "inner", many, name, options)
    extractor = key_expressions(many, one, name, "foreign_key", options.get("foreign_key"))
    cache = _cache_options(one, name, options)["cache"]
    return OneToManyJoin(foreign_key=extractor, cache=cache, **common)


def global_global(
    left: GlobalTable, how: How, right: GlobalTable, name: str, options: GlobalOptions
) -> GlobalGlobalJoin:
    """A global table or view with another one."""
    if how == "outer":
        raise left.refuse(name, "global tables have no outer join: nothing would find a right row that stands alone")
    common = validate_common(GlobalGlobalJoin, GlobalOptions, left, how, right, name, options)
    return GlobalGlobalJoin(key=key_expressions(left, right, name, "key", options.get("key")), **common)


def validate_common(
    family: type[Join], known: type, left: Node, how: How, right: Node, name: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The validated fields that all joins share; an option that the join does not have is refused."""
    unknown = [option for option in options if option not in known.__annotations__]
    if unknown:
        raise left.refuse(
            name,
            f"the join of a {left.kind_in_words} with a {right.kind_in_words} has no option {list_choices(unknown)}; "
            f"it has {list_choices(known.__annotations__)}",
        )
    semantics, idle = options.get("semantics", "3.1"), options.get("max_task_idle_ms", 0)
    if semantics not in family.profiles:
        raise left.refuse(
            name, f"semantics={semantics!r}: a {family.family} join has the profiles {list_choices(family.profiles)}"
        )
    versioned = [node.name for node in (left, right) if getattr(node, "history", None) is not None]
    if versioned and semantics in ("0.10.0", "0.10.2"):
        raise left.refuse(
            name, f"{list_choices(versioned)} has a history, which profile {semantics!r} does not know (KIP-889)"
        )
    if idle is not None and idle < 0:
        raise left.refuse(name, f"max_task_idle_ms is {idle}; give 0 or more, or None to wait for ever")
    validate_one_pipeline(left, right, name)
    select = options.get("select")
    if select is None:
        both = sorted(set(left.value) & set(right.value))
        if both:
            raise left.refuse(
                name,
                f"'{left.name}' and '{right.name}' both have {list_choices(both)}; "
                "give select={output column: expression over left.* and right.*}",
            )
        select = {c: f"left.{quote(c)}" for c in left.value} | {c: f"right.{quote(c)}" for c in right.value}
    left.validate_columns(name, select, *([right.key] if family.keyed_by_both else []))
    sides = {"left": left, "how": how, "right": right}
    return {**sides, "select": select, "semantics": semantics, "max_task_idle_ms": idle}


def _cache_options(node: Node, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    cache = options.get("cache")
    if cache is not None and cache not in get_args(Cache):
        raise node.refuse(name, f"cache={cache!r} is not one of {list_choices(get_args(Cache))}, or None")
    return {"cache": cache, "materialized": options.get("materialized", False)}


def validate_one_pipeline(left: Node, right: Node, name: str) -> None:
    """Refuse nodes of two pipelines."""
    if left.pipeline is not right.pipeline:
        raise left.refuse(
            name, f"'{right.name}' belongs to pipeline '{right.pipeline.name}'; take both nodes of one pipeline"
        )


def validate_copartitioned(left: Node, right: Node, name: str) -> None:
    """Refuse inputs with different keys or numbers of partitions."""
    if left.partitions != right.partitions or dict(left.key) != dict(right.key):
        raise left.refuse(
            name,
            f"not co-partitioned: '{left.name}' has {count_partitions(left)} and key {dict(left.key)}, "
            f"'{right.name}' has {count_partitions(right)} and key {dict(right.key)}; "
            "declare both with the same key columns, types and partitions, or repartition a stream with select_key()",
        )


def count_partitions(node: Node) -> str:
    """How many partitions a node has, in words."""
    return pluralize(node.partitions, "partition") if node.partitions else "the partitions of its topic"


def key_expressions(
    left: Node, right: Node, name: str, option: str, given: str | Mapping[str, str] | None
) -> Mapping[str, str]:
    """One expression for each key column of ``right``."""
    columns = list(right.key)
    if isinstance(given, str) and len(columns) == 1:
        return {columns[0]: given}
    if isinstance(given, Mapping) and set(given) == set(columns):
        return {column: given[column] for column in columns}
    raise left.refuse(
        name,
        f"{option}={given!r} must give one SQL expression for each key column of '{right.name}': "
        f"{list_choices(columns)}",
    )


def pick_window(left: Node, right: WindowedTable, name: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Key of the windowed row that a left record picks."""
    start = options.get("window_start")
    if start is None or not isinstance(right.windows, TimeWindows):
        raise left.refuse(
            name,
            f"'{right.name}' is a windowed table: give window_start= as SQL over the left record, in ms"
            if start is None
            else f"'{right.name}' has sliding windows, which start anywhere; only those of a fixed grid can be picked",
        )
    own = {column: quote(column) for column in right.key if column not in WINDOW_KEY}
    return {**own, "window_start": start, "window_end": f"({start}) + {right.windows.size}"}
