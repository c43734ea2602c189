"""Any cut, same result: all families, random histories, random cuts into epochs, inputs arriving in any order.

What is derived in several ways and must be equal is in ``tests/joins/epochs/any_cut.py``. `make test` takes one seed of
two families; `make prove` all of them, of each what has every row that its others have, and one more seed of all types;
``RIVERMEET_TEST_SEEDS`` says how many more.

Rows that no cut could leave alone are only replayed: a global table with ``bootstrap="epoch"`` loads what the epoch
brings, and ``merge`` cannot wait. ``select_key`` and the aggregate of a table cannot either, so that their inputs have
one partition here: records of several, brought into one, stand in the order of their epochs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from rivermeet.joins.aggregates.reference import Columns, SlidingWindowed, TableAggregate, TimeWindowed
from rivermeet.joins.foreign_key.reference.join import ForeignKeyJoin
from rivermeet.joins.one_to_many.reference import OneToManyJoin
from rivermeet.joins.reference.records import Record, Row
from rivermeet.joins.stream_global.reference import StreamGlobalJoin
from rivermeet.joins.stream_stream.reference.profile_3_1 import StreamStreamJoin, StreamStreamSelfJoin
from rivermeet.joins.stream_table.reference import StreamTableJoin
from rivermeet.joins.table_table.reference import TableTableJoin
from rivermeet.pipelines import JoinWindow, Pipeline, SlidingWindows, TimeWindows, expr
from rivermeet.pipelines.operations import count, maximum, total
from tests.joins.epochs.any_cut import (
    Groups,
    Input,
    Made,
    at_once,
    check_fold,
    check_reached,
    check_reference,
    check_replays,
    check_same,
    histories,
    in_pieces,
    plans,
    steady,
    waits,
)
from tests.joins.foreign_key.test_foreign_key import BEFORE_THE_BAR
from tests.reference.histories import foreign_key_of, interleave_all
from tests.reliability import survived
from tests.world import World

Make = Callable[..., World]
LR = {"l": "left.v", "r": "right.v"}
NUMBER = "CAST(substring_index(v, '|', -1) AS BIGINT)"
AGGREGATIONS = {"n": count(), "sum": total(NUMBER), "top": maximum("v")}
COLUMNS: Columns = {
    "n": ("count", None),
    "sum": ("sum", lambda v: int(v.partition("|")[2])),
    "top": ("max", lambda v: v),
}
WINDOW, HISTORY, GRACE = (10, 6, 5), 12, 8
MANY, ONE = ("p1", "p1", "p2", "p10", "é", None), ("f", "f", "g", "ff", None)
STREAM, TABLE, VERSIONED = Input("stream", MANY), Input("table", MANY), Input("table", MANY, history=HISTORY)
MANY_ROWS, ONE_ROWS = Input("table", MANY, 3), Input("table", ONE, 2)
VERBS = {"inner": "join", "left": "left_join", "outer": "outer_join"}
IDLE = {"waits": None, "hurries": 0}
CUT = "a random cut into epochs, inputs in any order"
SAME = "epochs that give the rows of one, or of their replayed log"


@dataclass(frozen=True)
class Family:
    """``declare`` takes the input nodes by name and gives groups of nodes that run together."""

    inputs: Mapping[str, Input]
    declare: Callable[..., Groups]
    cases: int = 12
    in_ci: bool = True


@dataclass(frozen=True)
class AsItCame:
    """A row for each record; a table has none without a key."""

    table: bool = False

    def process(self, x: Record) -> list[Row]:
        return [] if self.table and x.key is None else [Row(x.key, x.value, x.timestamp, x.position)]


def joins(
    left: Any, right: Any, hows: str, reference: Any = None, name: str = "", meets: bool = False, **options: Any
) -> list[Made]:
    """Joins of each type, the widest one last, waiting for ever and not at all; ``reference`` takes the type."""
    made: list[Made] = []
    for how in hows.split():
        for word, idle in IDLE.items():
            given = {"select": LR, "max_task_idle_ms": idle, **options}
            node = getattr(left, VERBS[how])(right, f"{how}{name}_{word}", **given)
            known: dict[str, Any] = {"order": interleave_all} if meets else {}
            if reference is not None:
                known["reference"] = partial(reference, how)
            made.append(Made(node, in_ci=hows.endswith(how), **known))
    return made


def rarely(made: Iterable[Made]) -> list[Made]:
    """For the draws of all types alone."""
    return [replace(one, in_ci=False) for one in made]


def streams(a: Any, b: Any) -> Groups:
    return [joins(a, b, "inner left outer", lambda how: StreamStreamJoin(how, *WINDOW), window=JoinWindow(*WINDOW))]


def itself(a: Any) -> Groups:
    return [joins(a, a, "inner left outer", lambda how: StreamStreamSelfJoin(how, *WINDOW), window=JoinWindow(*WINDOW))]


def stream_and_table(a: Any, b: Any) -> Groups:
    return [joins(a, b, "inner left", StreamTableJoin)]


def stream_and_versions(a: Any, b: Any) -> Groups:
    soon = joins(a, b, "inner left", lambda how: StreamTableJoin(how, "3.1", HISTORY))
    later = joins(a, b, "inner left", lambda how: StreamTableJoin(how, "3.1", HISTORY, GRACE), "_grace", grace=GRACE)
    return [rarely(soon) + later]


def stream_and_global(a: Any, b: Any) -> Groups:
    def loaded_first(left: list[Record], right: list[Record]) -> list[Record]:
        return [*interleave_all([], right), *interleave_all(left, [])]

    def reference(how: str) -> StreamGlobalJoin:
        return StreamGlobalJoin(how, foreign_key_of)

    timed = joins(a, b, "inner left", reference, meets=True, key=BEFORE_THE_BAR, bootstrap="timestamp")
    loaded = a.left_join(b, "loaded", select=LR, key=BEFORE_THE_BAR)
    return [[*timed, Made(loaded, partial(reference, "left"), loaded_first)]]


def tables(a: Any, b: Any) -> Groups:
    return [joins(a, b, "inner left outer", lambda how: TableTableJoin(how, "3.1", a.history))]


def foreign_keys(a: Any, b: Any) -> Groups:
    return [
        joins(
            a,
            b,
            "inner left",
            lambda how: ForeignKeyJoin(how, foreign_key_of),
            meets=True,
            foreign_key=BEFORE_THE_BAR,
        )
    ]


def one_to_many(a: Any, b: Any) -> Groups:
    options: dict[str, Any] = {"foreign_key": BEFORE_THE_BAR, "select": LR}
    nodes = [a.one_to_many_join(b, word, max_task_idle_ms=idle, **options) for word, idle in IDLE.items()]
    return [[Made(node, lambda: OneToManyJoin(foreign_key_of), interleave_all) for node in nodes]]


def reshaped(a: Any, b: Any) -> Groups:
    """Operations on one input, of a stream and of a table, and the merge of two."""
    ones, mapped = "v LIKE '%1'", {"w": "concat(k, v)"}
    streamed = b.to_stream("b_streamed")
    nodes = [a.to_table("a_table"), b.filter(ones, "b_ones"), streamed]
    others = [a.filter(ones, "a_ones"), a.map_values(mapped, "a_mapped"), b.map_values(mapped, "b_mapped")]
    return [[*map(Made, nodes), *rarely(map(Made, others))], [Made(a.merge(streamed, "merged"), AsItCame)]]


def rekeyed(a: Any, b: Any) -> Groups:
    group = {"grp": expr(BEFORE_THE_BAR, "STRING")}
    sums = b.group_by(group).aggregate(AGGREGATIONS, "sums", 3)
    summed = Made(sums, lambda: TableAggregate(foreign_key_of, COLUMNS), interleave_all)
    return [[Made(a.select_key(group, "selected", 3)), summed]]


def windows(a: Any) -> Groups:
    made: dict[Any, Callable[[], Any]] = {
        TimeWindows(10): lambda: TimeWindowed(COLUMNS, 0, size=10, advance=10),
        TimeWindows(10, 3, 8): lambda: TimeWindowed(COLUMNS, 8, size=10, advance=3),
        SlidingWindows(10, 8): lambda: SlidingWindowed(COLUMNS, 8, difference=10),
    }
    by_key = a.group_by_key()
    nodes = [by_key.windowed_by(given).aggregate(AGGREGATIONS, f"windows{n}") for n, given in enumerate(made)]
    first, *rest = [Made(node, reference) for node, reference in zip(nodes, made.values(), strict=True)]
    return [[*rarely([first]), *rest]]


def windowed_tables(a: Any, b: Any) -> Groups:
    """Windows with windows, with a table, and looked up by a table and by a stream."""
    of_ten = TimeWindows(10, grace=10)
    wa = a.group_by_key().windowed_by(of_ten).aggregate({"c": count()}, "wa")
    wb = b.group_by_key().windowed_by(of_ten).aggregate({"s": total(NUMBER)}, "wb")
    table = b.to_table("t")
    both, start = {"l": "left.c", "r": "right.s"}, f"10 * ({NUMBER} % 9)"
    made = joins(wa, wb, "inner left outer", TableTableJoin, select=both)
    others = joins(wa, wb, "inner", name="_shifted", select=both, window_map=-10)
    others += joins(wa, table, "inner left", name="_rows", select={"l": "left.c", "r": "right.v"})
    others += joins(table, wb, "left", name="_picked", select=both | {"l": "left.v"}, window_start=start)
    others += joins(a, wb, "left", name="_looked", select=both | {"l": "left.v"}, window_start=start)
    return [[Made(wa), Made(wb), Made(table)], [*made, *rarely(others)]]


def tables_in_a_row(a: Any, b: Any, f: Any, s: Any) -> Groups:
    """table ⋈ table, joined on a foreign key, and a stream that looks into what comes out."""
    made: list[list[Made]] = []
    for word, idle in IDLE.items():
        options: dict[str, Any] = {"max_task_idle_ms": idle}
        ab = a.left_join(b, f"ab_{word}", select=LR, **options)
        named = {"l": "left.l", "r": "left.r", "f": "right.v"}
        key = "CASE WHEN instr(l, '|') > 1 THEN substring_index(l, '|', 1) END"
        abf = ab.left_join(f, f"abf_{word}", foreign_key=key, select=named, **options)
        named = {"s": "left.v", "l": "right.l", "r": "right.r", "f": "right.f"}
        looked = s.left_join(abf, f"looked_{word}", select=named, **options)
        pointing = Made(abf, lambda: ForeignKeyJoin("left", lambda k, v: foreign_key_of(k, v[0])), interleave_all)
        row = [Made(ab, partial(TableTableJoin, "left")), pointing, Made(looked, partial(StreamTableJoin, "left"))]
        made.append(row if idle is None else rarely(row))
    return [*zip(*made, strict=True)]


def streams_and_then_tables(a: Any, b: Any, c: Any) -> Groups:
    """stream ⋈ stream, read as a table, joined with another table."""
    made: list[list[Made]] = []
    for word, idle in IDLE.items():
        ab = a.left_join(b, f"ab_{word}", window=JoinWindow(*WINDOW), select=LR, max_task_idle_ms=idle)
        table = ab.to_table(f"t_{word}")
        joined = table.left_join(c, f"abc_{word}", max_task_idle_ms=idle)
        paired = Made(ab, lambda: StreamStreamJoin("left", *WINDOW))
        made.append([paired, Made(table, lambda: AsItCame(table=True)), Made(joined, partial(TableTableJoin, "left"))])
    return [*zip(*made, strict=True)]


FAMILIES: dict[str, Family] = {
    "stream-stream": Family({"a": STREAM, "b": STREAM}, streams),
    "stream-itself": Family({"a": STREAM}, itself),
    "stream-table": Family({"a": STREAM, "b": TABLE}, stream_and_table),
    "stream-versioned": Family({"a": STREAM, "b": VERSIONED}, stream_and_versions),
    "stream-global": Family({"a": Input("stream", MANY, 3), "b": Input("global_table", ONE, 1)}, stream_and_global, 6),
    "table-table": Family({"a": TABLE, "b": TABLE}, tables),
    "versioned-table": Family({"a": VERSIONED, "b": TABLE}, tables, in_ci=False),
    "foreign-key": Family({"a": MANY_ROWS, "b": ONE_ROWS}, foreign_keys, 6),
    "one-to-many": Family({"a": Input("table", ONE, 2, column="j"), "b": MANY_ROWS}, one_to_many, 6),
    "reshaped": Family({"a": STREAM, "b": TABLE}, reshaped),
    "rekeyed": Family({"a": Input("stream", MANY, 1), "b": Input("table", MANY, 1)}, rekeyed, 6),
    "windows": Family({"a": STREAM}, windows),
    "windowed-tables": Family({"a": STREAM, "b": STREAM}, windowed_tables),
    "tables-in-a-row": Family(
        {"a": MANY_ROWS, "b": MANY_ROWS, "f": ONE_ROWS, "s": Input("stream", MANY, 3)}, tables_in_a_row, 6
    ),
    "streams-and-then-tables": Family({"a": STREAM, "b": STREAM, "c": TABLE}, streams_and_then_tables),
}


SEEDS = "RIVERMEET_TEST_SEEDS"
CUT_ONCE = [name for name, family in FAMILIES.items() if family.in_ci]
ALWAYS = ("stream-stream", "foreign-key")
"""Families for `make test`: one with partitions of its own for each history, and one in which partitions meet."""


def check(world: Make, family: Family, seed: int, runs: int, all_types: bool) -> int:
    """How many epochs the family was cut into."""
    pipeline = Pipeline("cuts")
    inputs = {name: given.declared(pipeline, name, family.cases) for name, given in family.inputs.items()}
    types = {name: given.types for name, given in family.inputs.items()}
    groups = [[made for made in group if made.in_ci or all_types] for group in family.declare(**inputs)]
    records = histories(seed, family.inputs, family.cases)
    pieces, whole = world("pieces", **types), world("whole", **types)
    in_pieces(pieces, inputs, groups, records, runs, random.Random(seed))
    at_once(whole, inputs, groups, records)
    every = [made for group in groups for made in group]
    for made in every:
        what = f"{made.node.name}, seed {seed}"
        if waits(made.node):
            check_reached(pieces, made.node, records, what)
        if steady(made.node):
            check_same(pieces, whole, made.node, f"{what}, at once", but=["epoch"])
        if made.reference is not None:
            check_reference(pieces, made, f"{what}, by reference")
        if made.node.is_table:
            check_fold(pieces, made.node, f"{what}, folded")
    replayed = [made.node for made in every if not steady(made.node) and (all_types or made.reference is None)]
    check_replays(pieces, replayed, world, f"seed {seed}")
    cuts = [len(plans(pieces, made.node)) for made in every]
    assert min(cuts[: len(groups[0])]) > 1, f"seed {seed} cuts nothing"
    return sum(cuts)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize(
    "family", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.prove) for name in CUT_ONCE]
)
def test_no_cut_changes_the_rows(world: Make, family: str, seed: int) -> None:
    epochs = check(world, FAMILIES[family], seed, runs=2, all_types=False)
    survived(f"{CUT}: {family}", SAME, epochs)


@pytest.mark.prove
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(2, 2 + int(os.environ.get(SEEDS, "1"))))
@pytest.mark.parametrize("family", FAMILIES)
def test_nor_do_more_cuts_change_any_type(world: Make, family: str, seed: int) -> None:
    epochs = check(world, FAMILIES[family], seed, runs=2 + seed % 3, all_types=True)
    survived(f"{CUT}: {family}", SAME, epochs)
