"""Every trace that the documents print or imply, through ``rivermeet replay`` and through real epochs, in any cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from pyspark.sql import SparkSession

from assets.replay import Way, at_once, replay
from assets.replay_epochs import in_epochs
from tests.golden.as_replay import Answer, replayed

TABLES = ("table-table", "fk-table-table", "one-to-many")
Trace = tuple[dict[str, Any], list[Answer]]


def check(spark: SparkSession, traces: Sequence[Trace], way: Way) -> None:
    results = replay(spark, [case for case, _ in traces], "3.1", way)
    for (case, expected), result in zip(traces, results, strict=True):
        assert "output" in result, result
        # A cached trace prints when a row was flushed, not which record caused it: the commit is the same.
        every = case.get("commit_every", 1)
        found = [(row["in"] // every, row["key"], row["value"]) for row in result["output"]]
        assert found == [(place // every, key, value) for place, key, value in expected], case["name"]


@pytest.mark.both_engines
def test_every_trace_at_every_profile_that_has_to_give_it(spark: SparkSession) -> None:
    traces = replayed(every_profile=True)
    assert len(traces) > 90
    check(spark, traces, at_once)


def uncached(traces: Sequence[Trace]) -> list[Trace]:
    """Without the traces whose rows depend on the cut: an epoch is a commit of their cache."""
    return [trace for trace in traces if not trace[0].get("cache")]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_trace_in_three_epochs(spark: SparkSession) -> None:
    check(spark, uncached(replayed(every_profile=False)), in_epochs(3))


def family(trace: Trace) -> tuple[str, str]:
    case, _ = trace
    return case["join"], case["semantics"]


def each_alone(spark: SparkSession, traces: Sequence[Trace]) -> None:
    # Family by family: a short trace would wait for the longest of all through epochs of nothing.
    for _, mine in groupby(sorted(traces, key=family), family):
        together = list(mine)
        check(spark, together, in_epochs(max(len(case["input"]) for case, _ in together)))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_join_with_one_record_per_epoch(spark: SparkSession) -> None:
    """Of each family and profile the traces of its widest type: outer where there is one, else left."""
    traces = uncached(replayed(every_profile=False))
    widest: dict[tuple[str, str], str] = {}
    for trace in traces:
        types = trace[0]["type"], widest.get(family(trace), "inner")
        widest[family(trace)] = max(types, key=("inner", "left", "outer").index)
    each_alone(spark, [trace for trace in traces if trace[0]["type"] == widest[family(trace)]])


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_trace_with_one_record_per_epoch(spark: SparkSession) -> None:
    each_alone(spark, uncached(replayed(every_profile=False)))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("epochs", [3])
def test_cached_traces_end_in_the_same_table_in_any_cut(spark: SparkSession, epochs: int) -> None:
    traces = [trace for trace in replayed(every_profile=False) if trace[0].get("cache")]
    assert len(traces) == 3
    for (_, expected), result in zip(
        traces, replay(spark, [case for case, _ in traces], "3.1", in_epochs(epochs)), strict=True
    ):
        folded = {row["key"]: row["value"] for row in result["output"]}
        assert folded == {key: value for _, key, value in expected}
