"""Rows that are computed once more against those that are committed, place by place, by both engines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from pyspark.sql import SparkSession

from rivermeet.expectations.judge.evaluation import Judge
from rivermeet.expectations.judge.spark import OnEngine
from rivermeet.expectations.results import InvariantResult, Judged, Relation
from rivermeet.expectations.rules.verify import VERIFY
from tests.expectations.nodes import IN_PROCESS, both, json_part

TYPES = """key STRUCT<id: INT>, value STRUCT<a: STRING, m: MAP<STRING, INT>>, timestamp BIGINT, partition INT,
offset BIGINT, epoch BIGINT""".replace("\n", " ")

Rows = Mapping[int, str | Sequence[str] | None]
"""Offset to the value of its row, None for a tombstone; several for as many rows."""


def relation(rows: Rows) -> Relation:
    lines = [
        {
            "key": {"id": 1},
            "value": None if value is None else {"a": value, "m": {"x": 1}},
            **{"timestamp": 10, "partition": 0, "offset": offset, "epoch": 1},
        }
        for offset, values in rows.items()
        for value in ([values] if values is None or isinstance(values, str) else values)
    ]
    return Relation("SELECT * FROM {given}", {"given": json_part(TYPES, lines)})


def compared(judge: Judge, committed: Rows, recomputed: Rows) -> InvariantResult:
    relations = {"changelog": lambda: relation(committed), "recomputed": lambda: relation(recomputed)}
    return judge.evaluate(both, [VERIFY], Judged(relations, {}, "whole"))[0]


COMMITTED = {0: "same", 1: None, 2: "changed", 3: ["twice", "twice"], 5: "too many", 7: None}
RECOMPUTED = {0: "same", 1: None, 2: "x", 3: "twice", 4: "lost", 7: "ended"}
DIFFER = [
    (2, "changed", "x"),
    (3, "twice", "no row"),
    (4, "no row", "lost"),
    (5, "too many", "no row"),
    (7, None, "ended"),
]


def found(judge: Judge) -> None:
    equal = compared(judge, RECOMPUTED, RECOMPUTED)
    assert (equal.state, equal.violations, equal.error) == ("passed", 0, None)
    different = compared(judge, COMMITTED, RECOMPUTED)
    assert (different.state, different.violations, different.scope) == ("violated", len(DIFFER), "whole")

    def shown(row: str) -> str | None:
        parsed = json.loads(row)
        return "no row" if parsed is None else parsed["value"] and parsed["value"]["a"]

    by_place = [(int(r["offset"]), shown(r["committed"]), shown(r["recomputed"])) for r in different.sample]
    assert by_place == DIFFER


def test_by_duckdb() -> None:
    found(IN_PROCESS)


@pytest.mark.slow
def test_by_spark(spark: SparkSession) -> None:
    """Which compares no MAP."""
    found(OnEngine(lambda: spark))


def test_a_row_that_comes_twice_and_is_another_one() -> None:
    """One of two differs from what is computed, and one is too many."""
    result = compared(IN_PROCESS, {0: ["a", "b"]}, {0: "a"})
    assert result.violations == 2


def test_what_cannot_be_compared_holds_nothing() -> None:
    result = compared(IN_PROCESS, {0: "a"}, {})
    assert result.violations == 1
    gone = IN_PROCESS.evaluate(both, [VERIFY], Judged({"changelog": lambda: relation({0: "a"})}))[0]
    assert gone.state == "not evaluated" and "no relation 'recomputed' was given" in (gone.error or "")
