"""Every rule over every type: the clean passes and the planted is found, by both engines with the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.expectations.invariants import ALL, invariants_of
from rivermeet.expectations.judge.evaluation import Judge
from rivermeet.expectations.judge.spark import OnEngine
from rivermeet.expectations.results import InvariantResult
from tests.expectations.nodes import IN_PROCESS
from tests.expectations.planted import PLANTED, Planted
from tests.expectations.test_invariants import epoch_of
from tests.expectations.typed import KINDS, TypedNode

BY_PLACE = frozenset(
    {
        *("dense_offsets", "dense_changelog", "record_shape", "stream_row_has_value", "processing_order"),
        *("no_spurious_one_sided_row", "no_duplicate_pair", "alone_only_on_outer_sides", "made_of_values"),
        *("alone_after_close", "alone_in_time", "rows_come_from_facts", "row_of_every_record", "late_share"),
    }
)
"""Rules that compare no key and no value: they show some."""
SHOWN = ("DECIMAL(38,10)", "STRUCT<b: BOOLEAN, `a b`: STRUCT<d: DATE, m: DECIMAL(5,1)>>", "MAP<STRING, INT>")


def cases(kind: str) -> Iterator[tuple[Planted, TypedNode]]:
    """One planted violation of each rule, at a node with this type."""
    for rule in ALL:
        if rule.id in BY_PLACE and kind not in SHOWN:
            continue
        possible = (p for p in PLANTED if p.breaks == rule.id and TypedNode(p.node, kind).is_possible)
        planted = next(possible, None)
        if planted is not None:
            yield planted, TypedNode(planted.node, kind)


def judge(planted: Planted, typed: TypedNode, by: Judge, clean: bool = False) -> dict[str, InvariantResult]:
    """What the rules that are broken, and no others, find in the epoch."""
    epoch, node = epoch_of(planted.node), typed.node()
    if not clean:
        planted.change(epoch)
    rules = [rule for rule in invariants_of(node) if rule.id == planted.breaks or rule.id in planted.also]
    return {found.invariant.id: found for found in by.evaluate(node, rules, typed.judged(node, epoch))}


def states(found: dict[str, InvariantResult]) -> dict[str, tuple[str, str | None]]:
    return {id: (result.state, result.error) for id, result in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_rule_finds_what_is_planted_and_nothing_else(kind: str) -> None:
    for planted, typed in cases(kind):
        broken, clean = judge(planted, typed, IN_PROCESS), judge(planted, typed, IN_PROCESS, clean=True)
        assert states(broken) == dict.fromkeys(broken, ("violated", None)), planted
        assert states(clean) == dict.fromkeys(clean, ("passed", None)), planted


@pytest.mark.parametrize("kind", KINDS)
def test_no_rule_is_left_out(kind: str) -> None:
    found = {planted.breaks for planted, _ in cases(kind)}
    without = set() if kind in SHOWN else BY_PLACE
    # A MAP is no key, by which another table could be found.
    keys = (
        {"foreign_key_hash", "found_by_foreign_key", "loaded_first", "aggregate_of_group"} if "MAP" in kind else set()
    )
    assert found == {rule.id for rule in ALL} - without - keys


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_spark_finds_the_same_rows(spark: SparkSession, kind: str) -> None:
    for planted, typed in cases(kind):
        mine, theirs = judge(planted, typed, IN_PROCESS), judge(planted, typed, OnEngine(lambda: spark))
        assert states(theirs) == states(mine), planted
        for id, found in mine.items():
            assert rows_of(theirs[id], typed) == rows_of(found, typed), planted
        clean = judge(planted, typed, OnEngine(lambda: spark), clean=True)
        assert states(clean) == dict.fromkeys(clean, ("passed", None)), planted


def rows_of(result: InvariantResult, typed: TypedNode) -> list[str]:
    """The sample by its places, numbers and problems: each engine has its own text of a time or a DOUBLE."""

    def plain(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: plain(one) for name, one in value.items() if name.removeprefix("stored ") not in typed.columns}

    rows = ({name: _parsed(text) for name, text in row.items()} for row in result.sample)
    return sorted(json.dumps(plain(row), sort_keys=True) for row in rows)


def _parsed(text: str) -> Any:
    return json.loads(text) if text.startswith("{") else text


def test_values_of_a_type_differ() -> None:
    for kind, value in KINDS.items():
        made: list[Any] = [value(place) for place in range(30)]
        assert len({repr(one) for one in made}) == len(made), kind
