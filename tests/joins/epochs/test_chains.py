"""Chains: what one operation gives is the next one's input, epoch by epoch, in cuts that fall anywhere.

All joins wait for ever, so that the references, one after the other over whole histories, say what must come out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rivermeet.joins.foreign_key.reference.join import ForeignKeyJoin
from rivermeet.joins.reference.records import Record, Row, interleave
from rivermeet.joins.stream_global.reference import StreamGlobalJoin
from rivermeet.joins.stream_stream.reference.profile_3_1 import StreamStreamJoin
from rivermeet.pipelines import JoinWindow, Pipeline, expr
from tests.joins.epochs.batch import FILES, TYPES, by_partition
from tests.joins.epochs.test_waiting import publish_in_pieces, released, together
from tests.joins.foreign_key.test_foreign_key import BEFORE_THE_BAR
from tests.reference.histories import foreign_key_of, in_epoch, interleave_all, random_histories, split
from tests.world import World

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Make = Callable[..., World]
Queue = tuple[str, int]
WINDOW = JoinWindow(10, 10, 5)
COMMON: dict[str, Any] = {"key": ["k"], "value": ["v"], "timestamp": "ts"}


def any_other(one: Queue, other: Queue) -> bool:
    return one != other


def as_records(side: str, partition: int, rows: Sequence[Any]) -> list[Record]:
    """(key, value, timestamp) in order, as records of one input."""
    return [Record(side, key, value, at, partition, offset) for offset, (key, value, at) in enumerate(rows)]


def stream_rows(records: Sequence[Record], partition: int) -> list[Row]:
    """stream ⋈ stream of what is released in one partition."""
    order = interleave(*split(released(records, [("left", partition), ("right", partition)], together)))
    join = StreamStreamJoin("left", 10, 10, 5)
    return [row for x in order for row in join.process(x)]


@pytest.mark.parametrize("seed", [1])
def test_streams_and_then_a_global_table(world: Make, seed: int) -> None:
    pipeline = Pipeline("chain")
    a, b = (pipeline.stream(name, FILES, partitions=2, **COMMON) for name in ("a", "b"))
    g = pipeline.global_table("g", FILES, **COMMON)
    ab = a.left_join(b, "ab", window=WINDOW, select={"l": "left.v", "r": "right.v"}, max_task_idle_ms=None)
    named = {"l": "left.l", "r": "left.r", "g": "right.v"}
    node = ab.left_join(g, "abg", key="l", select=named, bootstrap="timestamp", max_task_idle_ms=None)
    (history,) = random_histories(41, 1, partitions=(2, 2), size=150)
    rng, end = random.Random(43), max(r.timestamp for r in history)
    keys, values = ["L1", "L2", None], ["x", "y", "z", None]
    times = [max(0, end * i // 40 - rng.choice([0, 0, 3, 20])) for i in range(41)]
    updates = [Record("global", rng.choice(keys), rng.choice(values), at, 0, i) for i, at in enumerate(times)]
    here = world(a=TYPES, b=TYPES, g=TYPES)
    publish_in_pieces(here, {"left": a, "right": b, "global": g}, [*history, *updates], [ab, node], seed, rounds=2)

    first = {p: [(row.key, row.value, row.timestamp) for row in stream_rows(history, p)] for p in (0, 1)}
    second = [r for p in first for r in as_records("left", p, first[p])] + [replace(r, side="right") for r in updates]
    order = interleave_all(*split(released(second, [("left", 0), ("left", 1), ("right", 0)], any_other)))
    at = {r.position: r for r in order}
    expected = in_epoch(StreamGlobalJoin("left", lambda key, value: value[0]), order, "given")
    rows = by_partition(here.rows(node))
    assert len(expected) > 20
    assert {bool(x.value and x.value[1]) for x in expected} == {False, True}
    for p in (0, 1):
        found = [
            (r["key"] and r["key"]["k"], ((r["value"]["l"], r["value"]["r"]), r["value"]["g"]), r["timestamp"])
            for r in rows[p]
        ]
        assert found == [(x.key, x.value, x.timestamp) for x in expected if at[x.trigger].partition == p]


@pytest.mark.prove
@pytest.mark.parametrize("seed", [2])
def test_a_filtered_table_and_then_a_foreign_key(world: Make, seed: int) -> None:
    pipeline = Pipeline("chain")
    a, b = (pipeline.table(name, FILES, partitions=1, **COMMON) for name in ("a", "b"))
    kept = a.filter("v NOT LIKE '%2'", "kept")
    node = kept.left_join(
        b, "kb", foreign_key=BEFORE_THE_BAR, select={"l": "left.v", "r": "right.v"}, max_task_idle_ms=None
    )
    (history,) = random_histories(47, 1, "foreign_key", size=90)
    here = world(a=TYPES, b=TYPES)
    publish_in_pieces(here, {"left": a, "right": b}, history, [kept, node], seed)

    left: list[Any] = []
    held: set[Any] = set()
    for r in split(history)[0]:
        stays = r.value is not None and not r.value.endswith("2")
        if r.key is not None and (stays or r.key in held):
            left.append((r.key, r.value if stays else None, r.timestamp))
            (held.add if stays else held.discard)(r.key)
    assert len(left) < len(split(history)[0])
    second = [*as_records("left", 0, left), *split(history)[1]]
    join = ForeignKeyJoin("left", foreign_key_of)
    order = interleave_all(*split(released(second, [("left", 0), ("right", 0)], any_other)))
    expected = [(row.key, row.value, row.timestamp) for x in order for row in join.process(x)]
    found = [
        (r["key"]["k"], r["value"] and (r["value"]["l"], r["value"]["r"]), r["timestamp"]) for r in here.rows(node)
    ]
    assert found == expected
    table = {key: value for key, value, _ in expected}
    folded = {r["k"]: (r["l"], r["r"]) for r in here.rows(node, "table")}
    assert folded == {key: value for key, value in table.items() if value is not None}


@pytest.mark.prove
@pytest.mark.parametrize("seed", [4])
def test_selected_keys_and_then_streams(world: Make, seed: int) -> None:
    pipeline = Pipeline("chain")
    a, b = (pipeline.stream(name, FILES, partitions=1, **COMMON) for name in ("a", "b"))
    # The digit of L1, L2, L3 and R1, R2, R3.
    number = {"n": expr("substring(v, 2, 1)", "STRING")}
    moved, other = a.select_key(number, "moved", 3), b.select_key(number, "other", 3)
    pairs = {"l": "left.v", "r": "right.v"}
    node = moved.left_join(other, "pairs", window=WINDOW, select=pairs, max_task_idle_ms=None)
    (history,) = random_histories(53, 1, size=80)
    here = world(a=TYPES, b=TYPES)
    publish_in_pieces(here, {"left": a, "right": b}, history, [moved, other, node], seed, rounds=2)

    second: list[Record] = []
    for side, made in (("left", moved), ("right", other)):
        rows = here.rows(made)
        in_order = sorted(rows, key=lambda r: r["trigger"]["offset"])
        values = [(r["key"] and r["key"]["n"], r["value"] and r["value"]["v"], r["timestamp"]) for r in in_order]
        assert values == [(r.value and r.value[1], r.value, r.timestamp) for r in history if r.side == side]
        for p, mine in by_partition(rows).items():
            assert [r["trigger"]["offset"] for r in mine] == sorted(r["trigger"]["offset"] for r in mine)
            values = [(r["key"] and r["key"]["n"], r["value"] and r["value"]["v"], r["timestamp"]) for r in mine]
            second += as_records(side, p, values)
    joined = by_partition(here.rows(node))
    for p in range(3):
        found = [
            (r["key"] and r["key"]["n"], (r["value"]["l"], r["value"]["r"]), r["timestamp"]) for r in joined.get(p, [])
        ]
        assert found == [(row.key, row.value, row.timestamp) for row in stream_rows(second, p)], p
    assert sum(map(len, joined.values())) > 20
