"""Stream-stream joins of Kafka Streams' releases, and self-joins: recorded answers, row for row, in order.

All records at once, and in real epochs, where state comes back from tables and the operator's memory. The recorded
order is the case's; under the project's own order, by head timestamps, the reference joins answer instead.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from rivermeet.assets.replay.epochs import in_epochs
from rivermeet.assets.replay.run import Way, at_once, replay
from rivermeet.joins.reference.records import Join, Record
from rivermeet.joins.reference.records import run as answered
from rivermeet.joins.stream_stream.reference.profile_0_10_0 import StreamStreamEarlyJoin
from rivermeet.joins.stream_stream.reference.profile_0_10_2 import StreamStreamEagerJoin
from rivermeet.joins.stream_stream.reference.profile_3_1 import StreamStreamSelfJoin
from rivermeet.joins.stream_stream.reference.profile_kafka_4 import (
    StreamStreamKafka4Join,
    StreamStreamKafka4SelfJoin,
    TwiceSelfJoin,
)
from rivermeet.pipelines import JoinWindow
from tests.joins.epochs.batch import TYPES, Batch, by_partition, found, run, two_streams
from tests.joins.epochs.in_steps import in_pieces, in_steps
from tests.reference.histories import random_histories
from tests.reference.recording import by_group
from tests.reference.stream_stream.record import GROUPS, RECORDED, drawn
from tests.reference.stream_stream.test_recorded import as_written
from tests.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Case = dict[str, Any]
Make = Callable[..., World]
NAMES = [
    pytest.param(
        f"ss.{semantics}.{name}",
        marks=[pytest.mark.cell(join="stream-stream", how=how, semantics=semantics)] if name == how else [],
    )
    for semantics, name, how, *_ in GROUPS
]
SAMPLE = 20
KINDS = ("inner", "left", "outer")


@cache
def recorded() -> dict[str, list[Case]]:
    """The recorded cases by group."""
    return by_group(RECORDED)


def check(spark: SparkSession, cases: list[Case], way: Way) -> None:
    asked = [{name: x for name, x in case.items() if name != "output"} for case in cases]
    results = replay(spark, asked, "3.1", way)
    for case, result in zip(cases, results, strict=True):
        assert result.get("output", result) == case["output"], case["name"]


@pytest.mark.slow
@pytest.mark.parametrize("group", NAMES)
def test_all_records_at_once_give_the_recorded_rows(spark: SparkSession, group: str) -> None:
    check(spark, recorded()[group], at_once)


def self_joins(how: str, count: int) -> list[Case]:
    """Self-joins "3.1" with the reference's answers."""
    cases: list[Case] = []
    for i in range(count):
        rng = random.Random(f"self {how} {i}")
        case = {"name": f"self.{how}.{i}", "join": "stream-stream", "type": how, "semantics": "3.1", "self": True}
        case |= drawn(rng, "kafka-4", True)
        window = case["window"]
        join = StreamStreamSelfJoin(how, window["before_ms"], window["after_ms"], window["grace_ms"])
        records = [Record("left", x["key"], x["value"], x["ts"], position=i) for i, x in enumerate(case["input"])]
        cases.append({**case, "output": [as_written(row) for row in answered(join, records)]})
    return cases


@pytest.mark.parametrize("how", KINDS)
def test_self_joins_of_the_default_profile_are_one_step(spark: SparkSession, how: str) -> None:
    check(spark, self_joins(how, 60), at_once)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(in_steps(in_pieces(3)), id="in steps"),
        pytest.param(in_epochs(3), marks=pytest.mark.prove, id="in real epochs"),
    ],
)
def test_self_joins_of_the_default_profile_in_three_epochs(spark: SparkSession, way: Way) -> None:
    check(spark, self_joins("outer", SAMPLE), way)


ORDERED = [
    ("kafka-4", "outer", (-3, 8, 2)),
    ("0.10.2", "outer", (3, 12, 0)),
]


def reference(semantics: str, how: str, window: tuple[int, int, int]) -> Join:
    match semantics:
        case "kafka-4":
            return StreamStreamKafka4Join(how, *window)
        case "0.10.2":
            return StreamStreamEagerJoin(how, *window)
        case _:
            return StreamStreamEarlyJoin(how, *window[:2])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("semantics", "how", "window"), ORDERED)
def test_epochs_in_the_order_of_head_timestamps(
    world: Make, semantics: Any, how: str, window: tuple[int, int, int]
) -> None:
    """Offsets are each side's own here, and the order is not theirs."""
    left, right = two_streams()
    verb = {"left": left.left_join, "outer": left.outer_join}[how]
    select = {"l": "left.v", "r": "right.v"}
    node = verb(right, "ab", window=JoinWindow(*window), select=select, semantics=semantics)
    batch = Batch(list(random_histories(1, 12, size=24)), 3)
    rows = by_partition(run(world(a=TYPES, b=TYPES), node, batch))
    for case in range(len(batch.histories)):
        join, at = reference(semantics, how, window), batch.offsets(case)
        expected = [
            (
                row.key,
                row.value,
                row.timestamp,
                at[row.trigger],
                None if row.left is None else at[row.left][1],
                None if row.right is None else at[row.right][1],
            )
            for piece in batch.pieces(case)
            for x in piece
            for row in join.process(x)
        ]
        assert [found(row) for row in rows.get(case, [])] == expected, case


SELF_JOINS: dict[str, tuple[dict[str, Any], Callable[..., Join]]] = {
    "3.1": ({}, lambda how, *w: StreamStreamSelfJoin(how, *w)),
    "kafka-4": ({"semantics": "kafka-4"}, lambda how, *w: TwiceSelfJoin(StreamStreamKafka4Join(how, *w))),
    "optimized": ({"semantics": "kafka-4", "optimized": True}, lambda how, *w: StreamStreamKafka4SelfJoin(*w)),
    "0.10.2": ({"semantics": "0.10.2"}, lambda how, *w: TwiceSelfJoin(StreamStreamEagerJoin(how, *w))),
    "0.10.0": ({"semantics": "0.10.0"}, lambda how, *w: TwiceSelfJoin(StreamStreamEarlyJoin(how, *w[:2]))),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kind", [kind if kind == "3.1" else pytest.param(kind, marks=pytest.mark.prove) for kind in SELF_JOINS]
)
def test_a_self_join_takes_its_records_in_order_of_arrival(world: Make, kind: str) -> None:
    """One queue has one head: a record behind a later one is both sides' next, not left ones first."""
    (options, joins), window = SELF_JOINS[kind], (3, 12, 4)
    how = "inner" if kind == "optimized" else "outer"
    stream, _ = two_streams()
    verb = {"inner": stream.join, "outer": stream.outer_join}[how]
    node = verb(stream, "aa", window=JoinWindow(*window), select={"l": "left.v", "r": "right.v"}, **options)
    histories = list(random_histories(2, 12, size=24))
    small = world(a=TYPES)
    for epoch in range(3):
        small.publish(
            stream,
            [
                (None if r.key is None else (r.key,), None if r.value is None else (r.value,), r.timestamp, case)
                for case, history in enumerate(histories)
                for r in history[epoch * 8 : epoch * 8 + 8]
            ],
        )
        small.run(node)
    rows = by_partition(small.rows(node))
    for case, history in enumerate(histories):
        join = joins(how, *window)
        records = [Record("left", r.key, r.value, r.timestamp, position=i) for i, r in enumerate(history)]
        expected = [(r.key, r.value, r.timestamp, r.trigger, r.left, r.right) for r in answered(join, records)]
        emitted = [(*f[:3], f[3][1], *f[4:]) for f in map(found, rows.get(case, []))]
        assert emitted == expected, case
