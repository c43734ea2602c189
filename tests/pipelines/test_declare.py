"""Every refusal of a declaration says which pipeline, which node, and what would do; what is accepted is kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

import pytest

from rivermeet.pipelines import (
    DeclarationError,
    Files,
    GlobalView,
    JoinWindow,
    Pipeline,
    SlidingWindows,
    Stream,
    Table,
    TimeWindows,
    WindowedTable,
    count,
    expr,
    total,
)
from rivermeet.pipelines.family import families
from rivermeet.pipelines.joins import (
    ForeignKeyJoin,
    GlobalGlobalJoin,
    Join,
    OneToManyJoin,
    Semantics,
    StreamGlobalJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
)

WINDOW = JoinWindow("10s", "10s", "5s")
HOUR = TimeWindows("1h")


class Nodes:
    """One node of every kind; ``s`` streams, ``t`` tables, ``g`` global tables."""

    def __init__(self) -> None:
        self.pipeline = Pipeline("shop")
        self.s, self.s2 = self._made("stream", "s", "n"), self._made("stream", "s2", "m")
        self.t, self.t2 = self._made("table", "t", "i"), self._made("table", "t2", "j")
        self.versioned = self._made("table", "versioned", "w", history="1h")
        self.many = self._made("table", "many", "owner", key="line")
        self.wide = self._made("stream", "wide", "q", partitions=8)
        self.g, self.g2 = self._made("global_table", "g", "a"), self._made("global_table", "g2", "b")
        self.hours: WindowedTable = self.s.group_by_key().windowed_by(HOUR).aggregate({"c": count()}, "hours")
        self.hours2: WindowedTable = self.s2.group_by_key().windowed_by(HOUR).aggregate({"d": count()}, "hours2")
        self.days: WindowedTable = (
            self.s.group_by_key().windowed_by(TimeWindows("1d")).aggregate({"e": count()}, "days")
        )
        sliding = self.s.group_by_key().windowed_by(SlidingWindows("1h"))
        self.sliding: WindowedTable = sliding.aggregate({"f": count()}, "sliding")

    def _made(self, kind: str, name: str, value: str, key: str = "k", **options: Any) -> Any:
        files = Files("none/*.csv", "csv", {key: "STRING", value: "STRING", "ts": "BIGINT"})
        return getattr(self.pipeline, kind)(name, files, key=[key], timestamp="ts", value=[value], **options)

    def elsewhere(self, kind: str = "stream") -> Any:
        files = Files("none/*.csv", "csv", {"k": "STRING", "x": "STRING", "ts": "BIGINT"})
        return getattr(Pipeline("elsewhere"), kind)("far", files, key=["k"], timestamp="ts", value=["x"])


Declare = Callable[[Nodes], Any]
FK = {"foreign_key": "i"}

REFUSED: list[tuple[str, Declare, str]] = [
    # Combinations that no release has.
    ("stream_outer_table", lambda n: n.s.outer_join(n.t, "x"), "no outer join: only the stream's records cause rows"),
    ("stream_outer_global", lambda n: n.s.outer_join(n.g, "x", key="n"), "a stream and a global table have no outer"),
    ("stream_outer_windowed", lambda n: n.s.outer_join(n.hours, "x"), "windowed table have no outer join"),
    ("stream_inner_windowed", lambda n: n.s.join(n.hours, "x", window_start="n"), "only a left join.*choose left_join"),
    ("table_stream", lambda n: n.t.join(n.s, "x"), "'s' is a stream: a stream keeps no rows.*start from the stream"),
    ("table_global", lambda n: n.t.left_join(n.g, "x"), "'g' is a global table: it never triggers"),
    ("global_table", lambda n: n.g.join(n.t, "x", key="a"), "global table's update never triggers; start from 't'"),
    ("global_stream", lambda n: n.g.left_join(n.s, "x", key="a"), "'s' is a stream.*start from 's'"),
    ("global_outer", lambda n: n.g.outer_join(n.g2, "x", key="a"), "global tables have no outer join"),
    (
        "fk_outer",
        lambda n: n.t.outer_join(n.t2, "x", **FK),
        "a foreign-key join has no outer form; choose join or left",
    ),
    ("windowed_outer_table", lambda n: n.hours.outer_join(n.t, "x"), "has no window; choose join or left_join"),
    ("table_inner_windowed", lambda n: n.t.join(n.hours, "x"), "only a left join.*left_join with window_start"),
    ("merge_table", lambda n: n.s.merge(n.t, "x"), "'t' is a table; read it with to_stream"),
    ("many_stream", lambda n: n.t.one_to_many_join(n.s, "x", foreign_key="n"), "'s' is a stream; use table"),
    # Co-partitioning.
    (
        "partitions",
        lambda n: n.s.join(n.wide, "x", window=WINDOW),
        "not co-partitioned: 's' has 4.*'wide' has 8.*select_key",
    ),
    ("keys", lambda n: n.t.join(n.many, "x"), "not co-partitioned.*'k': 'STRING'.*'line': 'STRING'"),
    ("stream_table", lambda n: n.wide.join(n.t, "x"), "not co-partitioned: 'wide' has 8 partitions"),
    (
        "windowed_partitions",
        lambda n: n.wide.left_join(n.hours, "x", window_start="q"),
        "not co-partitioned.*windows of 'k'",
    ),
    (
        "merge_shapes",
        lambda n: n.s.merge(n.s2, "x"),
        "value 'n', 4 partitions.*value 'm', 4: make them equal with map_val",
    ),
    ("join_pipelines", lambda n: n.s.join(n.elsewhere(), "x", window=WINDOW), "belongs to pipeline 'elsewhere'"),
    (
        "merge_pipelines",
        lambda n: n.s.merge(n.elsewhere(), "x"),
        "belongs to pipeline 'elsewhere'; take both nodes of one",
    ),
    # Windows.
    ("no_window", lambda n: n.s.join(n.s2, "x"), r"needs window=JoinWindow\(before, after, grace\)"),
    ("window_text", lambda n: n.s.join(n.s2, "x", window="10s"), r"needs window=JoinWindow\(before, after, grace\)"),
    (
        "eager_of_old",
        lambda n: n.s.join(n.s2, "x", window=WINDOW, eager=True),
        "variants of 'kafka-4', and semantics is '3.1'",
    ),
    (
        "optimized_of_two",
        lambda n: n.s.join(n.s2, "x", window=WINDOW, optimized=True, semantics="kafka-4"),
        "optimized is the inner self-join's operator; join the stream with itself",
    ),
    ("no_start", lambda n: n.s.left_join(n.hours, "x"), "'hours' is a windowed table: give window_start= as SQL"),
    ("no_start_table", lambda n: n.t.left_join(n.hours, "x"), "give window_start= as SQL over the left record, in ms"),
    ("sliding", lambda n: n.s.left_join(n.sliding, "x", window_start="n"), "'sliding' has sliding windows.*fixed grid"),
    (
        "map_of_tables",
        lambda n: n.t.join(n.t2, "x", window_map="1d"),
        "window_map is for windowed tables, and 't' is a table",
    ),
    (
        "window_shapes",
        lambda n: n.hours.join(n.days, "x"),
        "'hours' has windows.*3600000.*'days'.*no windows in common",
    ),
    (
        "windowed_fk",
        lambda n: n.hours.join(n.many, "x"),
        "foreign_key=None must give one SQL expression.*'many': 'line'",
    ),
    # History and grace.
    ("grace_without", lambda n: n.s.join(n.t, "x", grace="5m"), "grace is 300000 ms, and 't' has a history of None ms"),
    (
        "grace_longer",
        lambda n: n.s.join(n.versioned, "x", grace="2h"),
        "no longer than it remembers.*history= of at least",
    ),
    ("grace_negative", lambda n: n.s.join(n.versioned, "x", grace=-1), "grace is -1 ms"),
    ("history_of_old", lambda n: n.s.join(n.versioned, "x", semantics="0.10.2"), r"'versioned' has a history.*KIP-889"),
    ("history_of_two", lambda n: n.t.join(n.versioned, "x", semantics="0.10.0"), "profile '0.10.0' does not know"),
    (
        "history_fk",
        lambda n: n.versioned.join(n.t, "x", foreign_key="w", semantics="0.10.2"),
        "'versioned' has a history",
    ),
    ("history_negative", lambda n: n.s.to_table("x", history=-5), "history is -5 ms; make it 0 or more"),
    # Options.
    ("cache_tables", lambda n: n.t.join(n.t2, "x", cache="always"), "cache='always' is not one of 'epoch', or None"),
    ("cache_fk", lambda n: n.t.join(n.t2, "x", **FK, cache=10), "cache=10 is not one of 'epoch'"),
    (
        "cache_many",
        lambda n: n.t.one_to_many_join(n.many, "x", foreign_key="owner", cache="no"),
        "cache='no' is not one of 'epoch'",
    ),
    (
        "idle",
        lambda n: n.s.join(n.t, "x", max_task_idle_ms=-1),
        "max_task_idle_ms is -1; give 0 or more, or None to wait",
    ),
    (
        "bootstrap",
        lambda n: n.s.join(n.g, "x", key="n", bootstrap="later"),
        "bootstrap='later' is not one of 'epoch', 'time",
    ),
    (
        "bootstrap_of_view",
        lambda n: n.s.join(n.g.join(n.g2, "v", key="a"), "x", key="n", bootstrap="timestamp"),
        "'v' is a view, resolved as its tables stand; leave bootstrap='epoch'",
    ),
    (
        "no_mapper",
        lambda n: n.s.join(n.g, "x"),
        "key=None must give one SQL expression for each key column of 'g': 'k'",
    ),
    ("other_mapper", lambda n: n.s.join(n.g, "x", key={"z": "n"}), "key={'z': 'n'} must give one SQL expression"),
    ("no_view_key", lambda n: n.g.join(n.g2, "x"), "key=None must give one SQL expression for each key column of 'g2'"),
    ("no_fk_many", lambda n: n.t.one_to_many_join(n.many, "x"), "foreign_key=None must give.*key column of 't': 'k'"),
    ("both_keys", lambda n: n.t.one_to_many_join(n.t2, "x", foreign_key="j"), "both have 'k'; rename the key columns"),
    # An option of another join is named, with those that there are.
    (
        "window_of_table",
        lambda n: n.s.join(n.t, "x", window=WINDOW),
        "join of a stream with a table has no option 'window'",
    ),
    (
        "grace_of_streams",
        lambda n: n.s.join(n.s2, "x", window=WINDOW, grace=1),
        "stream with a stream has no option 'grace'",
    ),
    ("idle_of_view", lambda n: n.g.join(n.g2, "x", key="a", max_task_idle_ms=0), "it has 'key', 'select', 'semantics'"),
    ("key_of_tables", lambda n: n.t.join(n.t2, "x", key="i"), "table with a table has no option 'key'"),
    ("map_of_fk", lambda n: n.t.join(n.t2, "x", **FK, window_map=1), "has no option 'window_map'"),
    ("how_of_many", lambda n: n.t.one_to_many_join(n.many, "x", foreign_key="owner", window=1), "no option 'window'"),
    (
        "cache_of_window",
        lambda n: n.s.left_join(n.hours, "x", window_start="n", cache="epoch"),
        "the join of a stream with a windowed table has no option 'cache'",
    ),
    # Columns.
    (
        "same_columns",
        lambda n: n.s.join(n.s, "x", window=WINDOW),
        "both have 'n'; give select={output column: expression",
    ),
    (
        "select_key_column",
        lambda n: n.s.join(n.t, "x", select={"k": "left.n"}),
        "select names 'k', which the result has",
    ),
    (
        "select_reserved",
        lambda n: n.s.join(n.t, "x", select={"_offset": "1"}),
        "select names '_offset'.*choose other names",
    ),
    ("select_nothing", lambda n: n.s.join(n.t, "x", select={}), "select has no columns; name at least one"),
    (
        "select_many_key",
        lambda n: n.t.one_to_many_join(n.many, "x", foreign_key="owner", select={"line": "1"}),
        "select names 'line', which the result has already",
    ),
    ("map_key_column", lambda n: n.t.map_values({"k": "i"}, "x"), "select names 'k', which the result has already"),
    ("map_nothing", lambda n: n.s.map_values({}, "x"), "select has no columns"),
    (
        "map_function",
        lambda n: n.s.map_values({"y": lambda left, right: left}, "x"),
        "'y' as no SQL text; map_values takes SQL",
    ),
    ("key_text", lambda n: n.s.select_key("n", "x"), r"key='n' must give each key column as expr\(sql, TYPE\)"),
    ("key_untyped", lambda n: n.s.select_key({"y": "n"}, "x"), r"must give each key column as expr\(sql, TYPE\)"),
    ("key_none", lambda n: n.s.select_key({}, "x"), r"key=\{\} must give each key column"),
    (
        "key_taken",
        lambda n: n.s.select_key({"n": expr("n", "STRING")}, "x"),
        "key names 'n', which the result has already",
    ),
    ("key_partitions", lambda n: n.s.select_key({"y": expr("n", "STRING")}, "x", 0), "partitions is 0; give 1 or more"),
    (
        "aggregate_key",
        lambda n: n.t.group_by({"i": expr("i", "STRING")}).aggregate({"i": total("1")}, "x"),
        "key names 'i', which the result has already",
    ),
    (
        "aggregate_nothing",
        lambda n: n.t.group_by({"y": expr("i", "STRING")}).aggregate({}, "x"),
        "select has no columns; name at least one",
    ),
    (
        "aggregate_partitions",
        lambda n: n.t.group_by({"y": expr("i", "STRING")}).aggregate({"c": count()}, "x", -1),
        "partitions is -1; give 1 or more",
    ),
    (
        "window_column",
        lambda n: n.s.group_by_key().windowed_by(HOUR).aggregate({"window_start": count()}, "x"),
        "'window_start' is what the windows are called; rename the column",
    ),
    # Folds.
    ("fold_unknown", lambda n: n.t.filter("true", "x", fold="never"), "fold is 'never'; give 'run', 'due' or None"),
    # Names.
    ("name_taken", lambda n: n.s.filter("true", "x") and n.s.filter("true", "x"), "declared twice; taken names are"),
]


@pytest.mark.parametrize(("declared", "says"), [x[1:] for x in REFUSED], ids=[x[0] for x in REFUSED])
def test_refused(declared: Declare, says: str) -> None:
    with pytest.raises(DeclarationError, match=says) as refusal:
        declared(Nodes())
    assert str(refusal.value).startswith("pipeline 'shop', node 'x': ")


def test_each_computed_table_says_when_it_is_folded() -> None:
    nodes = Nodes()
    made = [
        nodes.t.filter("true", "filtered", fold="due"),
        nodes.hours.map_values({"twice": "2 * c"}, "mapped", fold="due"),
        nodes.t.left_join(nodes.t2, "joined", fold="due"),
        nodes.s.to_table("read", fold="due"),
        nodes.t.group_by({"y": expr("i", "STRING")}).aggregate({"c": count()}, "counted", fold="due"),
    ]
    assert [node.fold for node in made] == ["due"] * 5
    assert nodes.t.filter("true", "as_others").fold is None


def test_a_bad_name_is_refused() -> None:
    with pytest.raises(DeclarationError, match="a name is letters, digits and _, a letter first"):
        Nodes().s.filter("true", "1st")


@pytest.mark.parametrize("bad", ["5 minutes", "", None, True, 1.5])
def test_a_duration_has_a_unit(bad: Any) -> None:
    with pytest.raises(ValueError, match="is not a duration; write a number and one of ms, s, m, h, d"):
        JoinWindow(bad, 0)


BAD_WINDOWS: list[tuple[Callable[[], Any], str]] = [
    (lambda: JoinWindow("-5s", "4s"), r"window ends before it starts: before \+ after = -1000 ms"),
    (lambda: JoinWindow(1, 1, -1), "grace is -1 ms; make it 0 or more"),
    (lambda: TimeWindows(0), "window size is 0 ms; make it 1 or more"),
    (lambda: TimeWindows(10, 11), "advance is 11 ms; make it 1 to size = 10, or records fall between"),
    (lambda: TimeWindows(10, 0), "advance is 0 ms"),
    (lambda: TimeWindows(10, 5, -1), "grace is -1 ms"),
    (lambda: SlidingWindows(-1), "difference is -1 ms; make it 0 or more"),
    (lambda: SlidingWindows(0, -1), "grace is -1 ms"),
]


@pytest.mark.parametrize(("made", "says"), BAD_WINDOWS)
def test_windows_that_cannot_be(made: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made()


# Profiles: each family takes those that it lists, and names them where it does not.

DECLARED: dict[type[Join], Callable[[Nodes, Any], Any]] = {
    StreamStreamJoin: lambda n, p: n.s.left_join(n.s2, "x", window=WINDOW, semantics=p),
    StreamTableJoin: lambda n, p: n.s.left_join(n.t, "x", semantics=p),
    StreamGlobalJoin: lambda n, p: n.s.left_join(n.g, "x", key="n", semantics=p),
    TableTableJoin: lambda n, p: n.t.left_join(n.t2, "x", semantics=p),
    ForeignKeyJoin: lambda n, p: n.t.left_join(n.t2, "x", foreign_key="i", semantics=p),
    OneToManyJoin: lambda n, p: n.t.one_to_many_join(n.many, "x", foreign_key="owner", semantics=p),
    GlobalGlobalJoin: lambda n, p: n.g.left_join(n.g2, "x", key="a", semantics=p),
}


def test_every_family_is_here() -> None:
    assert DECLARED.keys() == {one.declaration for one in families().values() if one.declaration.joins_sides}


@pytest.mark.parametrize("profile", [*get_args(Semantics), "2.0"])
@pytest.mark.parametrize("family", DECLARED, ids=lambda family: family.family)
def test_profiles(family: type[Join], profile: str) -> None:
    if profile in family.profiles:
        node = DECLARED[family](Nodes(), profile)
        assert isinstance(node.join_spec, family)
        assert node.join_spec.semantics == profile
    else:
        listed = ", ".join(map(repr, family.profiles))
        says = f"semantics='{profile}': a {family.family} join has the profiles {listed}"
        with pytest.raises(DeclarationError, match=re.escape(says)):
            DECLARED[family](Nodes(), profile)


def test_the_first_release_has_no_inner_stream_table_join() -> None:
    n = Nodes()
    with pytest.raises(DeclarationError, match=r"profile '0\.10\.0' has no inner stream-table join; choose left_join"):
        n.s.join(n.t, "x", semantics="0.10.0")


# What is accepted: the node that comes out.


def test_names_keys_and_partitions_of_results() -> None:
    n = Nodes()
    moved = n.s.select_key({"y": expr("n", "int")}, "moved", 7)
    assert (type(moved), moved.key, moved.partitions, moved.value) == (Stream, {"y": "INT"}, 7, ("n",))
    assert (moved.origin.partitions, n.s.join(n.t).name) == (7, "s_t")  # pyright: ignore[reportAttributeAccessIssue]
    both = n.t.one_to_many_join(n.many, foreign_key="owner")
    assert (both.key, both.value) == ({"k": "STRING", "line": "STRING"}, ("i", "owner"))
    groups = n.t.group_by({"y": expr("i", "STRING")}).aggregate({"c": count()}, "groups", 2)
    assert (groups.key, groups.partitions, groups.value) == ({"y": "STRING"}, 2, ("c",))
    view = n.g.join(n.g2, key="a")
    assert (type(view), view.is_stored, view in n.pipeline.stored) == (GlobalView, False, False)


def test_what_is_made_of_a_table_keeps_its_kind() -> None:
    n = Nodes()
    kept = n.hours.filter("c > 1", "kept")
    assert isinstance(kept, WindowedTable)
    assert kept.windows == n.hours.windows
    assert [n.versioned.filter("true", "f").history, n.versioned.map_values({"z": "w"}, "m").history] == [3_600_000] * 2
    assert type(n.t.filter("true", "g_")) is Table
    assert n.s.to_table("tt", "5m").history == 300_000
    assert type(n.t.to_stream("ts")) is Stream


def test_defaults_of_options() -> None:
    n = Nodes()
    spec = n.s.join(n.versioned, "x", grace="30m", max_task_idle_ms=None).join_spec
    assert isinstance(spec, StreamTableJoin)
    assert (spec.grace, spec.max_task_idle_ms, spec.semantics, spec.key) == (1_800_000, None, "3.1", {"k": "`k`"})
    shifted = n.hours.join(n.hours2, "y", window_map="-7d").join_spec
    assert isinstance(shifted, TableTableJoin)
    assert (shifted.window_map, shifted.cache) == (-604_800_000, None)
    picked = n.s.left_join(n.hours, "z", window_start="n - 5").join_spec
    assert isinstance(picked, StreamTableJoin)
    assert picked.key == {"k": "`k`", "window_start": "n - 5", "window_end": "(n - 5) + 3600000"}
