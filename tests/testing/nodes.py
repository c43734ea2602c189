"""Every family, profile and option that the references know, over the nasty scripts, in one pipeline of small nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline, SlidingWindows, TimeWindows, expr
from rivermeet.pipelines.operations import average, count, maximum, minimum, total
from tests.reference.histories import NASTY_FOREIGN_KEY, NASTY_GLOBAL, NASTY_STREAM_STREAM, Line

FILES = Files("none", "csv", {"k": "STRING", "fk": "STRING", "v": "STRING", "n": "BIGINT", "ts": "BIGINT"})
KEYED: dict[str, Any] = {"key": ["k"], "timestamp": "ts"}
WINDOW = JoinWindow(10, 10, 5)
BOTH = {"l": "left.v", "r": "right.v", "both": "left.v IS NOT NULL AND right IS NOT NULL", "at": "left._timestamp"}
SCRIPTS: tuple[tuple[str, str, list[Line]], ...] = (
    ("a", "b", NASTY_STREAM_STREAM),
    ("t", "u", NASTY_FOREIGN_KEY),
    ("o", "g", NASTY_GLOBAL),
)
"""The source of the left records, and of the right ones."""


def sources(name: str) -> tuple[Pipeline, dict[str, Any]]:
    """Two streams, two tables, a stream of facts and a global table, and what is read as another thing."""
    p = Pipeline(name)
    value = ["fk", "v", "n"]
    found: dict[str, Any] = {
        "a": p.stream("a", FILES, value=value, **KEYED),
        "b": p.stream("b", FILES, value=value, **KEYED),
        "t": p.table("t", FILES, value=value, **KEYED),
        "u": p.table("u", FILES, value=value, **KEYED),
        "o": p.stream("o", FILES, value=value, **KEYED),
        "g": p.global_table("g", FILES, value=value, **KEYED),
    }
    found |= {"ta": found["a"].to_table("ta"), "tb": found["b"].to_table("tb")}
    return p, found


Make = Callable[[Mapping[str, Any]], Node]
PROFILES = {"strict": "3.1", "released": "kafka-4", "eager": "0.10.2", "early": "0.10.0"}


def _stream_stream(how: str, name: str) -> Make:
    named = f"{name}_{how}"
    return lambda s: getattr(s["a"], how)(s["b"], named, window=WINDOW, select=BOTH, semantics=PROFILES[name])


STREAM_STREAM: dict[str, Make] = {
    f"{how} {name}": _stream_stream(how, name) for name in PROFILES for how in ("join", "left_join", "outer_join")
}
SELF: dict[str, Make] = {
    "negative": lambda s: s["a"].left_join(s["b"], "negative", window=JoinWindow(-3, 9), select=BOTH),
    "eager": lambda s: s["a"].outer_join(s["b"], "eager", window=WINDOW, select=BOTH, semantics="kafka-4", eager=True),
    "self_3_1": lambda s: s["a"].left_join(s["a"], "self_3_1", window=JoinWindow(-3, 9, 2), select=BOTH),
    "self_kafka_4": lambda s: s["a"].join(
        s["a"], "self_kafka_4", window=JoinWindow(3, 9), select=BOTH, semantics="kafka-4"
    ),
    "self_optimized": lambda s: s["a"].join(
        s["a"], "self_optimized", window=JoinWindow(3, 9), select=BOTH, semantics="kafka-4", optimized=True
    ),
    "waiting": lambda s: s["a"].left_join(s["b"], "waiting", window=WINDOW, select=BOTH, max_task_idle_ms=None),
}
LOOKUPS: dict[str, Make] = {
    "st_left": lambda s: s["a"].left_join(s["tb"], "st_left", select=BOTH),
    "st_inner": lambda s: s["a"].join(s["tb"], "st_inner", select=BOTH, semantics="kafka-4"),
    "st_0_10_2": lambda s: s["a"].left_join(s["tb"], "st_0_10_2", select=BOTH, semantics="0.10.2"),
    "st_0_10_0": lambda s: s["a"].left_join(s["tb"], "st_0_10_0", select=BOTH, semantics="0.10.0"),
    "st_versioned": lambda s: s["a"].left_join(s["b"].to_table("bv", history=20), "st_versioned", select=BOTH),
    "st_grace": lambda s: s["a"].left_join(s["b"].to_table("bg", history=20), "st_grace", select=BOTH, grace=5),
    "st_grace_4": lambda s: s["a"].join(
        s["b"].to_table("b4", history=20), "st_grace_4", select=BOTH, grace=5, semantics="kafka-4"
    ),
    "global_left": lambda s: s["o"].left_join(s["g"], "global_left", key="fk", select=BOTH),
    "global_inner": lambda s: s["o"].join(s["g"], "global_inner", key="fk", select=BOTH, bootstrap="timestamp"),
    "global_0_10_2": lambda s: s["o"].left_join(s["g"], "global_0_10_2", key="fk", select=BOTH, semantics="0.10.2"),
    "view": lambda s: s["o"].left_join(
        s["g"].left_join(s["g"], "seen", key="v", select={"v": "left.v", "w": "right.v"}),
        "view",
        key="fk",
        select={"v": "left.v", "r": "right.v", "w": "right.w"},
    ),
}
TABLES: dict[str, Make] = {
    "tt_inner": lambda s: s["ta"].join(s["tb"], "tt_inner", select=BOTH),
    "tt_outer": lambda s: s["ta"].outer_join(s["tb"], "tt_outer", select=BOTH, cache="epoch"),
    "tt_kafka_4": lambda s: s["ta"].left_join(s["tb"], "tt_kafka_4", select=BOTH, semantics="kafka-4"),
    "tt_cached": lambda s: s["ta"].outer_join(
        s["tb"], "tt_cached", select=BOTH, semantics="kafka-4", cache="epoch", materialized=True
    ),
    "tt_0_10_2": lambda s: s["ta"].outer_join(s["tb"], "tt_0_10_2", select=BOTH, semantics="0.10.2", cache="epoch"),
    "tt_0_10_0": lambda s: (
        s["ta"]
        .filter("true", "t0")
        .left_join(s["tb"].filter("true", "u0"), "tt_0_10_0", select=BOTH, semantics="0.10.0")
    ),
    "tt_versioned": lambda s: (
        s["a"].to_table("av", history=5).left_join(s["b"].to_table("bv", history=5), "tt_versioned", select=BOTH)
    ),
    "tt_self": lambda s: s["ta"].join(s["ta"], "tt_self", select=BOTH),
}
FOREIGN: dict[str, Make] = {
    "fk_inner": lambda s: s["t"].join(s["u"], "fk_inner", foreign_key="fk", select=BOTH),
    "fk_left": lambda s: s["t"].left_join(s["u"], "fk_left", foreign_key="fk", select=BOTH, cache="epoch"),
    "fk_0_10_2": lambda s: s["t"].left_join(s["u"], "fk_0_10_2", foreign_key="fk", select=BOTH, semantics="0.10.2"),
    "fk_cached": lambda s: s["t"].join(
        s["u"], "fk_cached", foreign_key="fk", select=BOTH, semantics="kafka-4", cache="epoch", materialized=True
    ),
    "fk_versioned": lambda s: (
        s["t"]
        .to_stream("ts")
        .to_table("tv", history=15)
        .left_join(s["u"], "fk_versioned", foreign_key="fk", select=BOTH)
    ),
    "fk_self": lambda s: s["t"].left_join(s["t"], "fk_self", foreign_key="fk", select=BOTH),
    "many": lambda s: s["u"].one_to_many_join(
        s["t"].to_stream("tm").select_key({"m": expr("k", "STRING")}, "keyed").to_table("tk"),
        "many",
        foreign_key="fk",
        select={"l": "left.v", "r": "right.v"},
    ),
}
AROUND: dict[str, Make] = {
    "passing": lambda s: s["a"].filter("n > 1", "passing"),
    "passing_rows": lambda s: s["t"].filter("fk = 'f' AND v <> '9'", "passing_rows"),
    "mapped": lambda s: s["t"].map_values({"w": "coalesce(fk, v)", "twice": "n * 2", "at": "_timestamp"}, "mapped"),
    "merged": lambda s: s["a"].merge(s["b"], "merged"),
    "by_fk": lambda s: (
        s["t"]
        .group_by({"f": expr("fk", "STRING")})
        .aggregate(
            {"rows": count(), "n": total("n"), "top": maximum("v"), "least": minimum("n + 1"), "mean": average("n")},
            "by_fk",
        )
    ),
    "hopping": lambda s: s["a"].group_by_key().windowed_by(TimeWindows(10, 5, 5)).aggregate({"c": count()}, "hopping"),
    "sliding": lambda s: (
        s["a"].group_by_key().windowed_by(SlidingWindows(8, 3)).aggregate({"n": total("n")}, "sliding")
    ),
    "windows": lambda s: _windows(s),
}


def _windows(s: Mapping[str, Any]) -> Node:
    """A windowed table against its last window, and one that a stream picks."""
    daily = s["b"].group_by_key().windowed_by(TimeWindows(10, grace=20)).aggregate({"c": count()}, "daily")
    apart = daily.left_join(daily, "apart", window_map=-10, select={"now": "left.c", "then": "right.c"})
    s["a"].left_join(daily, "picked", window_start="n * 10", select={"v": "left.v", "c": "right.c"})
    return apart


GROUPS: dict[str, Mapping[str, Make]] = {
    "stream-stream": STREAM_STREAM,
    "self-joins": SELF,
    "look-ups": LOOKUPS,
    "tables": TABLES,
    "foreign keys": FOREIGN,
    "around joins": AROUND,
}


def declared(group: str) -> Pipeline:
    """The nodes of a group over all sources."""
    pipeline, given = sources(group.replace("-", "_").replace(" ", "_"))
    for make in GROUPS[group].values():
        make(given)
    return pipeline


def script() -> Iterator[tuple[str, Any, Any, int]]:
    """The nasty scripts, each record to its source: source, key, value, timestamp."""
    for left, right, lines in SCRIPTS:
        for at, (side, key, text, timestamp) in enumerate(lines):
            yield left if side == "left" else right, key, _columns(text, at), timestamp


def _columns(text: str | None, at: int) -> dict[str, Any] | None:
    """A script's value "f|1" in columns: what stands before the bar, if anything does, and what behind it."""
    if text is None:
        return None
    head, bar, rest = text.partition("|")
    return {"fk": (head or None) if bar else None, "v": rest if bar else head, "n": at % 4 or None}
