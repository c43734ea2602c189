"""Recorded histories in three epochs, in steps and through the real protocol: the rows are those of one epoch.

Each set of options of a family and profile is here in one of its types; ``tests/golden`` has the printed tables with
one record per epoch. A cache is flushed at the end of each epoch too, so that a cached history's rows are those that
the reference gives with these commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.assets.replay.epochs import in_epochs
from rivermeet.assets.replay.run import Way, replay
from tests.joins import recorded as tables
from tests.joins.epochs.in_steps import in_pieces, in_steps
from tests.joins.foreign_key import test_recorded as foreign_key
from tests.joins.stream_stream import test_recorded as stream_stream

EPOCHS = 3
SAMPLE = 4
MOST_OPTIONS = 2
"""Cache and its commits are two; what further options do to them is in `test_recorded_tables` and others."""
Given = dict[str, Any]
Expected = Callable[[Given], Any]


def sampled(cases: Iterable[Given], options: Callable[[Given], str]) -> list[Given]:
    """A few cases of each profile and set of options, of one type each; types take turns."""
    groups: dict[tuple[str, str], dict[str, list[Given]]] = {}
    for case in cases:
        if "error" not in case and len(options(case).split()) <= MOST_OPTIONS and matters(case):
            of_types = groups.setdefault((f"{case['join']} {case['semantics']}", options(case)), {})
            of_types.setdefault(case["type"], []).append(case)
    found: list[Given] = []
    for turn, key in enumerate(sorted(groups)):
        of_types = groups[key]
        mine = of_types[sorted(of_types)[turn % len(of_types)]]
        found += mine[:: max(1, len(mine) // SAMPLE)][:SAMPLE]
    return found


def matters(case: Given) -> bool:
    """Whether the options make a difference; without a cache, "3.1" goes through the epochs as "kafka-4" does."""
    if case["semantics"] == "3.1":
        return "cache" in case and "materialized" not in case
    return "cache" in case or "materialized" not in case


def check(spark: SparkSession, cases: list[Given], expected: Expected, way: Way) -> None:
    assert len(cases) > SAMPLE
    answers = replay(spark, [tables.asked(case) for case in cases], "3.1", way)
    for case, answer in zip(cases, answers, strict=True):
        assert answer.get("output", answer.get("error")) == expected(case), case


def set_of_options(case: Given) -> str:
    """Options by name."""
    plain = ("name", "join", "type", "semantics", "input", "output", "window", "selector")
    return " ".join(sorted(name for name in case if name not in plain))


def as_rows(rows: list[Any] | None) -> list[Given]:
    return [dict(zip(("key", "value", "ts", "in"), row, strict=True)) for row in rows or []]


def in_3_1(cases: Iterable[Given]) -> list[Given]:
    """The same histories under the default profile, without the answers of another one."""
    return [tables.asked(case) | {"semantics": "3.1"} for case in cases if case["semantics"] == "kafka-4"]


WAYS = pytest.mark.parametrize(
    "way",
    [
        pytest.param(in_steps(in_pieces(EPOCHS)), marks=pytest.mark.prove, id="in steps"),
        pytest.param(in_epochs(EPOCHS), marks=pytest.mark.prove, id="in real epochs"),
    ],
)


@pytest.mark.timeout(1800)
@WAYS
def test_streams(spark: SparkSession, way: Way) -> None:
    cases = [case for group in stream_stream.recorded().values() for case in group]
    check(spark, sampled(cases, set_of_options), lambda case: case["output"], way)


@pytest.mark.timeout(1800)
@WAYS
def test_tables(spark: SparkSession, way: Way) -> None:
    every = [*tables.recorded(), *in_3_1(tables.recorded())]
    check(spark, sampled(every, set_of_options), lambda case: as_rows(tables.in_pieces(case)), way)


@pytest.mark.timeout(1800)
@WAYS
def test_foreign_keys(spark: SparkSession, way: Way) -> None:
    every = [*foreign_key.recorded(), *in_3_1(foreign_key.recorded())]

    def expected(case: Given) -> list[Given]:
        by_reference = "cache" in case or case["semantics"] == "3.1"
        return foreign_key.by_reference(case, EPOCHS) if by_reference else case["output"]

    check(spark, sampled(every, set_of_options), expected, way)
