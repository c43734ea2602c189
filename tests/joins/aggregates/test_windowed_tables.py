"""Windowed tables: what may be joined with what, last week's views, and each join against its reference."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from rivermeet.pipelines import DeclarationError, Files, JoinWindow, Node, Pipeline, TimeWindows
from rivermeet.pipelines.operations import count, total
from tests.reference.aggregates import TimeWindowed
from tests.reference.foreign_key.join import ForeignKeyJoin
from tests.reference.records import Record, interleave
from tests.reference.tables.stream_table import StreamTableJoin
from tests.reference.tables.table_table import TableTableJoin
from tests.world import World, cut

Make = Callable[..., World]
FILES = Files("none/*.csv", "csv", {"k": "STRING", "n": "BIGINT", "v": "STRING", "ts": "BIGINT"})
VERBS = {"I": "join", "L": "left_join", "O": "outer_join"}
DAY = 86_400_000

MATRIX = {
    ("stream", "stream"): "LOI",
    ("stream", "table"): "L",
    ("stream", "windowed"): "L",
    ("table", "stream"): "",
    ("table", "table"): "LOI",
    ("table", "windowed"): "L",
    ("windowed", "stream"): "",
    ("windowed", "table"): "L",
    ("windowed", "windowed"): "LOI",
}
"""Page "Early joins", table of join types (golden `s003.matrix.types`, `s003.api`): primary and secondary side."""
LATER = {("stream", "table"): "I", ("windowed", "table"): "I"}
"""Inner joins that the page does not have: released since 0.10.2, and as every foreign-key join has one."""
OPTIONS: Mapping[tuple[str, str], dict[str, Any]] = {
    ("stream", "stream"): {"window": JoinWindow(5, 5)},
    ("stream", "windowed"): {"window_start": "n"},
    ("table", "windowed"): {"window_start": "n"},
}
"""The page's extra argument: a window of streams, and K, V1 -> W."""
REASONS = {
    ("stream", "table", "O"): "no outer join",
    ("stream", "windowed", "O"): "no outer join",
    ("stream", "windowed", "I"): "only a left join",
    ("table", "stream", "LOI"): "a table joins a table",
    ("table", "windowed", "OI"): "only a left join",
    ("windowed", "stream", "LOI"): "a table joins a table",
    ("windowed", "table", "O"): "no outer join",
}
CELLS = [(left, right, how) for left, right in MATRIX for how in "LOI"]


def node_of(kind: str, name: str, pipeline: Pipeline) -> Any:
    options: dict[str, Any] = {"key": ["k"], "value": {f"{name}n": "n"}, "timestamp": "ts"}
    if kind == "table":
        return pipeline.table(name, FILES, **options)
    stream = pipeline.stream(name, FILES, **options)
    if kind == "stream":
        return stream
    return stream.group_by_key().windowed_by(TimeWindows("1d")).aggregate({f"{name}c": count()}, f"{name}_windows")


@pytest.mark.parametrize(("left", "right", "how"), CELLS)
def test_every_cell_of_the_page_is_declarable_or_refused_with_a_reason(left: str, right: str, how: str) -> None:
    pipeline = Pipeline("matrix")
    primary, secondary = node_of(left, "a", pipeline), node_of(right, "b", pipeline)
    options = OPTIONS.get((left, right), {})
    if how in MATRIX[left, right] + LATER.get((left, right), ""):
        joined = getattr(primary, VERBS[how])(secondary, "joined", **options)
        # Golden `s003.matrix.result`: the result is what the primary side is.
        assert type(joined) is type(primary)
        # Golden `s003.driver`; both sides of a stream-stream left join drive it since 0.10.2.
        assert joined.operation.triggers == (("left",) if left == "stream" and right != "stream" else ("left", "right"))
        return
    (reason,) = [why for (a, b, types), why in REASONS.items() if (a, b) == (left, right) and how in types]
    with pytest.raises(DeclarationError, match=reason):
        getattr(primary, VERBS[how])(secondary, "joined", **options)


@pytest.mark.parametrize("how", "LOI")
def test_windows_of_one_table_meet_those_of_another_through_a_map(how: str) -> None:
    """The API's W -> W; other windows, or a map of plain tables, are refused."""
    pipeline = Pipeline("matrix")
    left, right = node_of("windowed", "a", pipeline), node_of("windowed", "b", pipeline)
    assert getattr(left, VERBS[how])(right, "joined", window_map="-7d").operation.window_map == -7 * DAY
    stream = pipeline.stream("c", FILES, key=["k"], value={"cn": "n"}, timestamp="ts")
    others = stream.group_by_key().windowed_by(TimeWindows("2d")).aggregate({"cc": count()}, "others")
    with pytest.raises(DeclarationError, match="no windows in common"):
        getattr(left, VERBS[how])(others, "refused")
    table, other = node_of("table", "t", pipeline), node_of("table", "u", pipeline)
    with pytest.raises(DeclarationError, match="window_map is for windowed tables"):
        getattr(table, VERBS[how])(other, "refused", window_map="1d")


LAST_WEEK = [("p1", 1, 3, None), ("p2", 1, 1, None), ("p1", 8, 5, 3), ("p2", 8, 2, 1)]
"""Page, day, views, views a week before; golden `s003.wtable.last_week` (illustrative: numbers made up)."""


@pytest.mark.parametrize("epochs", [1, 3])
def test_views_against_last_week(world: Make, epochs: int) -> None:
    pipeline = Pipeline("week")
    stream = pipeline.stream("views", FILES, key=["k"], value=["n"], timestamp="ts")
    daily = stream.group_by_key().windowed_by(TimeWindows("1d")).aggregate({"views": count()}, "daily")
    select = {"left": "left.views", "right": "right.views"}
    node = daily.left_join(daily, "against_last_week", window_map="-7d", select=select)
    made = world(f"week-{epochs}", views="key STRUCT<k: STRING>, value STRUCT<n: BIGINT>")
    views = [((page,), (1,), day * DAY + i, 0) for page, day, views, _ in LAST_WEEK for i in range(views)]
    for part in cut(sorted(views, key=lambda record: record[2]), epochs):
        made.publish(stream, part)
        made.run(daily)
        made.run(node)
    found = {(r["k"], r["window_start"] // DAY, r["left"], r["right"]) for r in made.rows(node, "table")}
    assert found == set(LAST_WEEK)
    assert node.kind == "windowed_table" and list(node.key) == ["k", "window_start", "window_end"]


@pytest.mark.parametrize("how", ["join", "outer_join"])
def test_two_records_in_two_hopping_windows_are_one_pair(world: Make, how: str) -> None:
    """Golden `s003.hopping.single_output`: r1 in w1, w2, w3 and r2 in w2, w3, w4 are joined once, not per window."""
    hopping = TimeWindowed({"n": ("count", None)}, 0, size=3, advance=1)
    windows = [{row.key[1] for row in hopping.process(Record("left", "k", at, at))} for at in (3, 4)]
    assert windows == [{1, 2, 3}, {2, 3, 4}]
    pipeline = Pipeline("hopping")
    left, right = node_of("stream", "a", pipeline), node_of("stream", "b", pipeline)
    # Records share a window of 3 ms where they lie less than that apart.
    node = getattr(left, how)(right, "pairs", window=JoinWindow(2, 2))
    made = world(how, **{name: f"key STRUCT<k: STRING>, value STRUCT<{name}n: BIGINT>" for name in "ab"})
    made.publish(left, [(("k",), (1,), 3, 0)])
    made.publish(right, [(("k",), (2,), 4, 0)])
    made.run(node)
    assert [(row["value"]["an"], row["value"]["bn"]) for row in made.rows(node)] == [(1, 2)]


SIZE = 10
EPOCHS = 2


@dataclass
class Joins:
    """Two windowed tables, a table and a stream, and every join of a windowed table."""

    world: World
    pipeline: Pipeline

    def __post_init__(self) -> None:
        streams = [node_of("stream", name, self.pipeline) for name in "ab"]
        self.sources: list[Any] = [
            *streams,
            node_of("table", "t", self.pipeline),
            node_of("stream", "s", self.pipeline),
        ]
        windows = [s.group_by_key().windowed_by(TimeWindows(SIZE, grace=SIZE)) for s in streams]
        self.a = windows[0].aggregate({"c": count()}, "wa")
        self.b = windows[1].aggregate({"sum": total("bn")}, "wb")
        table, stream = self.sources[2:]
        self.joins: dict[str, tuple[Any, Any]] = {}
        for how, verb in (("inner", "join"), ("left", "left_join"), ("outer", "outer_join")):
            node = getattr(self.a, verb)(self.b, f"tt_{how}", window_map=-SIZE)
            self.joins[f"tt_{how}"] = (node, TableTableJoin(how))
        for how, verb in (("inner", "join"), ("left", "left_join")):
            node = getattr(self.a, verb)(table, f"fk_{how}")
            self.joins[f"fk_{how}"] = (node, ForeignKeyJoin(how, lambda key, value: key.partition("|")[0]))
        picked = table.left_join(self.b, "picked", window_start="tn")
        self.joins["picked"] = (picked, ForeignKeyJoin("left", lambda key, value: window_key(key, value[0])))
        self.joins["looked"] = (stream.left_join(self.b, "looked", window_start="sn"), StreamTableJoin("left"))

    def run(self, records: list[list[list[Any]]]) -> None:
        """Epoch by epoch: per source the records to publish."""
        for epoch in records:
            for source, part in zip(self.sources, epoch, strict=True):
                self.world.publish(source, part)
            for node in (self.a, self.b, *(node for node, _ in self.joins.values())):
                self.world.run(node)

    def records(self, node: Node, side: str) -> list[tuple[int, Record]]:
        """A node's changelog as records of one side, each with its epoch; keys as text that sorts as they do."""
        return [
            (
                row["epoch"],
                Record(side, text(row["key"]), values(row["value"]), row["timestamp"], row["partition"], row["offset"]),
            )
            for row in self.world.rows(node)
        ]


def window_key(key: str, start: int | None) -> str | None:
    return None if start is None else f"{key}|{start:09d}"


def text(key: dict[str, Any] | None) -> str | None:
    if key is None:
        return None
    return window_key(key["k"], key["window_start"]) if "window_start" in key else key["k"]


def values(value: dict[str, Any] | None) -> tuple[Any, ...] | None:
    return None if value is None else tuple(value.values())


def later(key: str, by: int) -> str | None:
    name, _, start = key.partition("|")
    return window_key(name, int(start) + by)


def random_records(seed: int, cases: int) -> list[list[list[Any]]]:
    """Per epoch and source the records of all cases: two streams to aggregate, a table and a stream that pick."""
    rng = random.Random(seed)

    def drawn(case: int, clock: int, source: str) -> Any:
        key = f"{case}:{rng.choice('xy')}"
        start = rng.choice([None, clock // SIZE * SIZE, max(0, clock // SIZE - 1) * SIZE])
        value = (start,) if source in "ts" else (rng.choice([None, 1, 2, 5]),)
        return (key,), None if source == "t" and rng.random() < 0.3 else value, max(0, clock - rng.choice([0, 3])), case

    return [
        [
            [drawn(case, clock, source) for case in range(cases) for clock in range(25 * epoch, 25 * epoch + 25, 4)]
            for source in "abts"
        ]
        for epoch in range(EPOCHS)
    ]


def check(made: Joins, name: str) -> None:
    """A join's rows against its reference, fed with the changelogs that it read."""
    node, reference = made.joins[name]
    join = node.join_spec
    both = made.records(join.left, "left") + made.records(join.right, "right")
    if name.startswith("tt"):
        both = [(e, r if r.side == "left" else replace(r, key=later(r.key, SIZE))) for e, r in both]
    if name == "looked":
        # The reference looks up the record's key.
        picks = [r.value and window_key(str(r.key), r.value[0]) for _, r in both]
        both = [(e, replace(r, key=k) if r.side == "left" else r) for (e, r), k in zip(both, picks, strict=True)]
    expected: list[Any] = []
    for epoch in range(1, EPOCHS + 1):
        left, right = ([r for e, r in both if e == epoch and r.side == side] for side in ("left", "right"))
        for position, x in enumerate(interleave(left, right)):
            for row in reference.process(replace(x, position=position)):
                trigger = (x.side, x.partition, x.offset)
                key = None if name == "looked" else row.key
                sides = row.value and tuple(v and v[0] for v in row.value)
                expected.append((x.partition, key, sides, row.timestamp, trigger))
    found = [
        (
            row["partition"],
            None if name == "looked" else text(row["key"]),
            values(row["value"]),
            row["timestamp"],
            tuple(row["trigger"][c] for c in ("side", "partition", "offset")),
        )
        for row in made.world.rows(node)
    ]
    assert expected
    # Rows of several partitions have no order.
    by_partition = sorted(found, key=lambda row: row[0]), sorted(expected, key=lambda row: row[0])
    assert by_partition[0] == by_partition[1], name


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.cell(join="windowed-tables", how=("inner", "left", "outer"))
def test_joins_of_windowed_tables_say_what_their_references_say(world: Make) -> None:
    names = {name: f"key STRUCT<k: STRING>, value STRUCT<{name}n: BIGINT>" for name in "abts"}
    made = Joins(world("joins", **names), Pipeline("joins"))
    made.run(random_records(5, 12))
    for name in made.joins:
        check(made, name)
