"""Waiting for a slower input: what may go, the wall clock, and that no cut changes a join that waits for ever."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rivermeet.infra.delta.io import arrivals
from rivermeet.infra.epochs.waiting import NOTHING, Queues
from rivermeet.joins.reference.records import Record, Row, interleave
from rivermeet.joins.stream_global.reference import StreamGlobalJoin
from rivermeet.joins.stream_stream.reference.profile_3_1 import StreamStreamJoin
from rivermeet.joins.stream_table.reference import StreamTableJoin
from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline
from tests.golden.load import cases
from tests.joins.epochs.batch import FILES, TYPES, by_partition
from tests.joins.foreign_key.test_foreign_key import BEFORE_THE_BAR, set_apart
from tests.reference.histories import foreign_key_of, in_epoch, interleave_all, random_histories, split
from tests.reliability import survived
from tests.world import World

Make = Callable[..., World]
Queue = tuple[str, int]
CASES = 12
LR = {"l": "left.v", "r": "right.v"}


def sources(left: str, right: str, partitions: int = 1) -> tuple[Any, Any]:
    """Inputs ``a`` and ``b`` of those kinds."""
    pipeline = Pipeline("waits")
    made = []
    for name, kind in (("a", left), ("b", right)):
        options: Any = {} if kind == "global_table" else {"partitions": partitions}
        made.append(getattr(pipeline, kind)(name, FILES, key=["k"], value=["v"], timestamp="ts", **options))
    return made[0], made[1]


# What may go.


def queues(times: dict[str, dict[int, int]], alone: bool, partitions: int = 1) -> Queues:
    return Queues({}, {}, times, {"left": partitions, "right": partitions}, alone)


def test_a_tie_goes_to_the_left_and_then_to_the_lower_partition() -> None:
    both = queues({"left": {0: 12}, "right": {0: 11}}, alone=True)
    assert (both.bound(("left", 0)), both.bound(("right", 0))) == (11, 11)
    all_four = queues({"left": {0: 9, 1: 9}, "right": {0: 9, 1: 9}}, alone=False, partitions=2)
    assert [all_four.bound(q) for q in (("left", 0), ("left", 1), ("right", 0), ("right", 1))] == [9, 8, 8, 8]


def test_partitions_that_meet_no_other_wait_for_no_other() -> None:
    times = {"left": {0: 5, 1: 7}, "right": {0: 6}}
    assert queues(times, True, 2).bound(("left", 0)) == 6
    assert queues(times, True, 2).bound(("left", 1)) == NOTHING
    assert queues(times, False, 2).bound(("left", 0)) == NOTHING


# Any cut of the inputs gives the rows of one epoch over all that is released.


def released(records: Sequence[Record], every: Iterable[Queue], meets: Callable[[Queue, Queue], bool]) -> list[Record]:
    """Records that no record still to come can overtake, by the definition alone."""
    mine = {q: [r for r in records if (r.side, r.partition) == q] for q in every}
    top = {q: max((r.timestamp for r in mine[q]), default=NOTHING) for q in mine}
    gone: list[Record] = []
    for q in mine:
        head = NOTHING
        for r in sorted(mine[q], key=lambda r: r.offset):
            head = max(head, r.timestamp)
            if not all(head < top[o] or (head == top[o] and q < o) for o in mine if meets(q, o)):
                break
            gone.append(r)
    return gone


def publish_in_pieces(
    world: World,
    inputs: Mapping[str, Node],
    records: Sequence[Record],
    nodes: Sequence[Node],
    seed: int,
    rounds: int = 3,
) -> None:
    """Each queue cut at places of its own, one input often ahead of the other; runs here and there, and at the end."""
    rng = random.Random(seed)
    pieces: dict[tuple[str, int], list[Record]] = {(side, n): [] for side in inputs for n in range(rounds)}
    for q in sorted({(r.side, r.partition) for r in records}):
        mine = sorted((r for r in records if (r.side, r.partition) == q), key=lambda r: r.offset)
        cuts = sorted(rng.randint(0, len(mine)) for _ in range(rounds - 1))
        for n, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(mine)], strict=True)):
            pieces[q[0], n] += mine[start:end]
    for n in range(rounds):
        order = rng.sample(sorted(inputs), len(inputs))
        for side in order:
            rows = [(r.key and (r.key,), r.value and (r.value,), r.timestamp, r.partition) for r in pieces[side, n]]
            world.publish(inputs[side], rows)
            last = side == order[-1]
            for node in nodes:
                if (last and n == rounds - 1) or rng.random() < 0.4:
                    world.run(node)


def answer(row: Row, records: dict[int, Record]) -> tuple[Any, ...]:
    trigger = records[row.trigger]
    return (row.key, row.value, row.timestamp, trigger.side, trigger.offset)


def found(row: dict[str, Any]) -> tuple[Any, ...]:
    value, trigger = row["value"], row["trigger"]
    return (
        row["key"] and row["key"]["k"],
        (value["l"], value["r"]),
        row["timestamp"],
        trigger["side"],
        trigger["offset"],
    )


def together(one: Queue, other: Queue) -> bool:
    return one[1] == other[1] and one[0] != other[0]


COPARTITIONED: dict[str, tuple[str, dict[str, Any], Callable[[], Any]]] = {
    "stream-stream": ("stream", {"window": JoinWindow(10, 10, 5)}, lambda: StreamStreamJoin("left", 10, 10, 5)),
    "stream-table": ("table", {}, lambda: StreamTableJoin("left")),
}


# In CI these families wait for ever among those of tests/joins/epochs/test_any_cut.py.
@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("family", COPARTITIONED)
def test_no_cut_changes_a_join_that_waits_for_ever(world: Make, family: str, seed: int) -> None:
    right, options, reference = COPARTITIONED[family]
    a, b = sources("stream", right, CASES)
    node = a.left_join(b, "ab", select=LR, max_task_idle_ms=None, **options)
    histories = [
        [replace(r, partition=case) for r in set_apart(case, history)]
        for case, history in enumerate(random_histories(31, CASES))
    ]
    here = world(f"{family}-{seed}", a=TYPES, b=TYPES)
    publish_in_pieces(here, {"left": a, "right": b}, [r for history in histories for r in history], [node], seed)
    rows = by_partition(here.rows(node))
    held = 0
    for case, history in enumerate(histories):
        gone = released(history, [("left", case), ("right", case)], together)
        held += len(history) - len(gone)
        order = interleave(*split(gone))
        join, by_position = reference(), {r.position: r for r in order}
        expected = [answer(row, by_position) for x in order for row in join.process(x)]
        assert [found(row) for row in rows.get(case, [])] == expected, case
    assert 0 < held < sum(map(len, histories)) / 2


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [3])
def test_no_cut_changes_a_look_up_over_all_partitions(world: Make, seed: int) -> None:
    a, b = sources("stream", "global_table", 2)
    options: dict[str, Any] = {"key": BEFORE_THE_BAR, "bootstrap": "timestamp", "max_task_idle_ms": None}
    node = a.left_join(b, "ab", select=LR, **options)
    (history,) = random_histories(37, 1, "stream_global", (2, 1), size=80)
    here = world(f"global-{seed}", a=TYPES, b=TYPES)
    publish_in_pieces(here, {"left": a, "right": b}, history, [node], seed)
    rows = by_partition(here.rows(node))
    gone = released(history, [("left", 0), ("left", 1), ("right", 0)], lambda one, other: one != other)
    assert len(gone) > len(history) / 2
    order = interleave_all(*split(gone))
    by_position = {r.position: r for r in order}
    expected = in_epoch(StreamGlobalJoin("left", foreign_key_of), order, "given")
    for partition in (0, 1):
        mine = [row for row in expected if by_position[row.trigger].partition == partition]
        assert [found(row) for row in rows[partition]] == [answer(row, by_position) for row in mine]


# The wall clock.


def windowed(idle: int | None, partitions: int = 1) -> tuple[Any, Any, Any]:
    a, b = sources("stream", "stream", partitions)
    return a, b, a.left_join(b, "ab", select=LR, window=JoinWindow(10, 10, 5), max_task_idle_ms=idle)


def line(key: str, timestamp: int, partition: int = 0) -> tuple[Any, ...]:
    return (key,), (f"{key}{timestamp}",), timestamp, partition


def upto(result: Any) -> dict[str, dict[int, int]]:
    return {side: part.upto for side, part in result.plan.inputs.items()}


def commits(world: World, node: Node) -> list[int]:
    """When an input's commits were made, oldest first."""
    return [at for at, _ in arrivals(world.runner("waits").paths(node).changelog)][::-1]


def test_zero_takes_all_and_none_waits(world: Make) -> None:
    for idle, expected in ((0, {"left": {0: 1}, "right": {0: 0}}), (None, {"left": {0: 0}, "right": {0: 0}})):
        a, b, node = windowed(idle)
        here = world(f"idle-{idle}", a=TYPES, b=TYPES)
        here.publish(a, [line("x", 10), line("x", 12)])
        here.publish(b, [line("x", 11)])
        assert upto(here.run(node, now_ms=2.0**42)) == expected
        assert here.run(node, now_ms=2.0**42) is None


def test_everything_goes_when_the_wall_clock_has_passed(world: Make) -> None:
    a, b, node = windowed(60_000)
    here = world(a=TYPES, b=TYPES)
    here.publish(a, [line("x", 10), line("x", 12)])
    here.publish(b, [line("x", 11)])
    (arrived,) = commits(here, a)
    assert upto(here.run(node, now_ms=arrived)) == {"left": {0: 0}, "right": {0: 0}}
    assert here.run(node, now_ms=arrived + 59_999) is None
    # A later record does not make the first one wait longer.
    here.publish(a, [line("x", 14)])
    assert here.run(node, now_ms=arrived + 59_999) is None
    assert upto(here.run(node, now_ms=arrived + 60_000)) == {"left": {0: 2}, "right": {0: 0}}
    # What came too late after all is taken as it comes: the left input has reached 14.
    here.publish(b, [line("x", 9), line("x", 13), line("x", 14)])
    assert upto(here.run(node, now_ms=arrived + 60_001)) == {"left": {0: 2}, "right": {0: 2}}
    survived("an input that lags behind the other", "waited for until max_task_idle_ms, over runs, and no longer")


def test_one_partitions_patience_is_not_anothers(world: Make) -> None:
    a, b, node = windowed(60_000, 2)
    here = world(a=TYPES, b=TYPES)
    here.publish(b, [])
    here.publish(a, [line("x", 10, 0)])
    here.publish(a, [line("y", 10, 1)])
    first, second = commits(here, a)
    assert second > first
    assert upto(here.run(node, now_ms=first + 60_000))["left"] == {0: 0}
    assert upto(here.run(node, now_ms=second + 60_000))["left"] == {0: 0, 1: 0}


def test_a_view_is_waited_for_by_its_tables(world: Make) -> None:
    pipeline = Pipeline("waits")
    files = Files("none/*.csv", "csv", {"k": "STRING", "v": "STRING", "ts": "BIGINT"})
    options: dict[str, Any] = {"key": ["k"], "value": ["v"], "timestamp": "ts"}
    a = pipeline.stream("a", files, partitions=1, **options)
    one, two = pipeline.global_table("one", files, **options), pipeline.global_table("two", files, **options)
    view = one.left_join(two, "view", key="v", select={"v": "right.v"})
    node = a.left_join(view, "ab", key="v", select=LR, max_task_idle_ms=None)
    here = world(a=TYPES, one=TYPES, two=TYPES)
    here.publish(a, [(("x",), ("p",), 5, 0)])
    here.publish(one, [(("p",), ("q",), 6, 0)])
    here.publish(two, [(("q",), ("w",), 4, 0)])
    here.run(node)
    assert here.rows(node) == []
    here.publish(two, [(("z",), ("w",), 5, 0)])
    here.run(node)
    assert [found(row) for row in here.rows(node)] == [("x", ("p", None), 5, "left", 0)]


# The documents' tables: each step an epoch, taken as it comes.

SYNC = [case for case in cases(profile="3.1") if case.id.startswith("s000.sync.")]


def test_all_printed_orders_are_here() -> None:
    assert {case.id.removeprefix("s000.sync.") for case in SYNC} == {
        "st.in_order",
        "st.table_late",
        "st.table_late_inner",
        "st.table_early_current_state",
        "st.table_early_sql_reading",
        "tt.late_update",
    }


def stream_and(right: str, partitions: int = 1) -> tuple[Any, Any, dict[str, Any]]:
    """Inputs, and the options that join them on the key in the order of processing."""
    if right == "versioned":
        a, b = sources("stream", "stream", partitions)
        return a, b.to_table("versions", history="1h"), {}
    a, b = sources("table" if right == "tables" else "stream", right.removesuffix("s"), partitions)
    return a, b, {"key": "k", "bootstrap": "timestamp"} if right == "global_table" else {}


STREAM_TABLE = [case for case in SYNC if ".st." in case.id and not case.id.endswith("sql_reading")]
PRINTED = {
    "table": STREAM_TABLE,
    "global_table": STREAM_TABLE,
    "versioned": [case for case in SYNC if case.id.endswith("sql_reading")],
    "tables": [case for case in SYNC if ".tt." in case.id],
}


@pytest.mark.parametrize("right", PRINTED)
def test_printed_orders_when_nothing_waits(world: Make, right: str) -> None:
    """All cases in one run, each under a key and in a partition of its own."""
    printed = PRINTED[right]
    a, b, options = stream_and(right, len(printed))
    hows = {case.how: a.join if case.how == "inner" else a.left_join for case in printed}
    nodes = {how: verb(b, how, select=LR, **options) for how, verb in hows.items()}
    source = b.origin.input if right == "versioned" else b
    here = world(right, a=TYPES, b=TYPES)
    for step in range(max(len(case.records) for case in printed)):
        for side, node in (("left", a), ("right", source)):
            due = [(n, c.records[step]) for n, c in enumerate(printed) if step < len(c.records)]
            place = (lambda n: 0) if right == "global_table" and side == "right" else (lambda n: n)
            rows = [((f"{n}:{r.key}",), (r.value,), r.timestamp, place(n)) for n, r in due if r.side == side]
            here.publish(node, rows)
        for node in ([b] if right == "versioned" else []) + list(nodes.values()):
            here.run(node)
    for n, case in enumerate(printed):
        rows = [(row["key"]["k"], (row["value"]["l"], row["value"]["r"])) for row in here.rows(nodes[case.how])]
        mine = [(key, value) for key, value in rows if key.startswith(f"{n}:")]
        assert mine == [(f"{n}:{e.key}", e.value) for e in case.expected], case.id


@pytest.mark.parametrize("right", ["table", "global_table"])
def test_waiting_repairs_the_late_table(world: Make, right: str) -> None:
    """The stream's record is there first, and is taken after the table's older one, as printed for the right order."""
    (late,) = (case for case in SYNC if case.id.endswith("st.table_late"))
    (in_order,) = (case for case in SYNC if case.id.endswith("st.in_order"))
    a, b, options = stream_and(right)
    node = a.left_join(b, "ab", select=LR, max_task_idle_ms=None, **options)
    here = world(right, a=TYPES, b=TYPES)
    here.publish(b, [])
    for r in [*late.records, Record("right", "other", "z", 5)]:
        here.publish(a if r.side == "left" else b, [((r.key,), (r.value,), r.timestamp, 0)])
        here.run(node)
    rows = [(row["key"]["k"], (row["value"]["l"], row["value"]["r"])) for row in here.rows(node)]
    assert rows == [(e.key, e.value) for e in in_order.expected]
