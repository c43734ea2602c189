"""Every invariant passes a clean epoch and catches what is planted in it."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from typing import Any

import pytest

from rivermeet.expectations.invariant import Invariant, relations_of
from rivermeet.expectations.invariants import ALL, invariants_of
from rivermeet.expectations.judge.duck import add_hash, database
from rivermeet.expectations.judge.evaluation import Judge
from rivermeet.expectations.judge.spark import OnEngine
from rivermeet.expectations.results import InvariantResult
from rivermeet.expectations.rules.derived import derive
from tests.expectations import nodes
from tests.expectations.clean import CLEAN, Epoch
from tests.expectations.nodes import IN_PROCESS, judged_on
from tests.expectations.planted import PLANTED, Planted

_STREAMS = {14, 25, 26, 29, 37, 38, 42, 45, 51, 53, 55, 63, 69}
_TABLES = {84, 85, 86, 87, 91, 112, 113, 118, 122, 123, 125, 156}
DOCUMENTED = _STREAMS | _TABLES | {3, 165, 167, 184, 193, 194}
"""Requirements of the documents that results can be held to."""
_EPOCH = {"rows", "earlier", "left", "right", "new_left", "new_right", "left_before", "right_before"}
_EPOCH |= {"bounds", "times", "before", "placed", "unread"}
_COMMITTED = {"changelog", "table", "bounds", "sizes", "was", "now", "left", "right", "late"}


def epoch_of(name: str) -> Epoch:
    """A clean epoch whose relations have no row in common, so that a change stays in its own."""
    return {relation: [copy.deepcopy(row) for row in rows] for relation, rows in CLEAN[name][1]().items()}


def judge(name: str, epoch: Epoch, *only: str, by: Judge = IN_PROCESS) -> dict[str, InvariantResult]:
    node = CLEAN[name][0]
    rules = [rule for rule in invariants_of(node) if not only or rule.id in only]
    return {result.invariant.id: result for result in by.evaluate(node, rules, judged_on(node, epoch))}


@pytest.fixture(scope="module")
def clean() -> dict[str, dict[str, InvariantResult]]:
    return {name: judge(name, epoch_of(name)) for name in CLEAN}


def named(planted: Planted) -> str:
    return f"{planted.breaks}-{planted.node}-{planted.what}".replace(" ", "_")


@pytest.mark.parametrize("invariant", ALL, ids=lambda one: one.id)
def test_a_clean_epoch_passes(clean: dict[str, dict[str, InvariantResult]], invariant: Invariant):
    nodes = [name for name in CLEAN if invariant.applies_to(CLEAN[name][0])]
    assert nodes, "no clean epoch"
    for name in nodes:
        result = clean[name][invariant.id]
        assert (result.state, result.error, result.sample) == ("passed", None, []), name
        assert result.checked, name


@pytest.mark.parametrize("invariant", ALL, ids=lambda one: one.id)
def test_every_invariant_has_a_planted_violation(invariant: Invariant):
    assert [planted for planted in PLANTED if planted.breaks == invariant.id]


@pytest.mark.parametrize("number", sorted(DOCUMENTED))
def test_every_requirement_has_an_invariant_and_a_planted_violation_of_it(number: int):
    holding = {invariant.id for invariant in ALL if number in invariant.requirements}
    assert holding, "no invariant"
    assert {planted.breaks for planted in PLANTED if number in planted.about} & holding, holding


def test_no_invariant_holds_what_is_no_requirement():
    assert {number for invariant in ALL for number in invariant.requirements} == DOCUMENTED
    assert not [p for p in PLANTED for number in p.about if number not in DOCUMENTED]


@pytest.mark.parametrize("planted", PLANTED, ids=named)
def test_a_planted_violation_is_found(planted: Planted):
    """By DuckDB, and nothing else: what it breaks, what must break with it, and no more."""
    epoch = epoch_of(planted.node)
    planted.change(epoch)
    found = judge(planted.node, epoch)
    assert "not evaluated" not in {result.state for result in found.values()}
    assert {id for id, result in found.items() if result.state == "violated"} == {planted.breaks} | planted.also
    broken = found[planted.breaks]
    assert (broken.state, broken.error) == ("violated", None)
    assert broken.violations == len(broken.sample) > 0
    assert all(isinstance(text, str) for row in broken.sample for text in row.values())
    with database("1g", IN_PROCESS.spill) as connection:
        add_hash(connection, connection.sql("SELECT {'n': 'x'}").types[0])
        assert len(connection.execute(broken.sql).fetchall()) == broken.violations


@pytest.mark.parametrize("invariant", ALL, ids=lambda one: one.id)
def test_spark_finds_the_same(spark: Any, invariant: Invariant):
    planted = next(one for one in PLANTED if one.breaks == invariant.id)
    epoch = epoch_of(planted.node)
    planted.change(epoch)
    by_spark = judge(planted.node, epoch, invariant.id, by=OnEngine(lambda: spark))[invariant.id]
    mine = judge(planted.node, epoch, invariant.id)[invariant.id]
    assert (by_spark.state, by_spark.violations, by_spark.error) == ("violated", mine.violations, None)
    assert sorted(map(str, by_spark.sample)) == sorted(map(str, mine.sample))


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("node", CLEAN)
def test_spark_finds_nothing_else(spark: Any, node: str):
    """Of each violation planted in a node: what it breaks, what must break with it, and no more."""
    for planted in (one for one in PLANTED if one.node == node):
        epoch = epoch_of(node)
        planted.change(epoch)
        states = {id: result.state for id, result in judge(node, epoch, by=OnEngine(lambda: spark)).items()}
        assert "not evaluated" not in states.values(), named(planted)
        broken = {id for id, state in states.items() if state == "violated"}
        assert broken == {planted.breaks} | planted.also, named(planted)


@pytest.mark.parametrize("name", CLEAN)
def test_an_epoch_without_a_row_passes(name: str):
    epoch: Epoch = {relation: [] for relation in CLEAN[name][1]()} | {"sizes": [{"before": 3, "after": 3}]}
    assert {id: (found.state, found.error) for id, found in judge(name, epoch).items() if not found.passed} == {}


OF_ALL_KEYS = {"equals_batch_join", "aggregate_of_group", "unique_keys"}
"""Rules that compare all rows of tables, or those with the keys that are named."""


def test_rules_that_can_be_asked_for_some_keys():
    named = {
        rule.id for node, _ in CLEAN.values() for rule in invariants_of(node) if "{touched:" in rule.violations(node)
    }
    assert named == OF_ALL_KEYS


@pytest.mark.parametrize("planted", [one for one in PLANTED if one.breaks in OF_ALL_KEYS], ids=named)
def test_of_a_large_table_some_keys_are_judged(planted: Planted):
    epoch = epoch_of(planted.node)
    planted.change(epoch)
    whole = judge(planted.node, epoch, planted.breaks)[planted.breaks]
    bad = [{"key": json.loads(row["key"])} for row in whole.sample]
    some = judge(planted.node, epoch | {"touched": bad}, planted.breaks)[planted.breaks]
    assert (some.violations, some.scope) == (whole.violations, "epoch")
    others = judge(planted.node, epoch | {"touched": []}, planted.breaks)[planted.breaks]
    assert (others.state, others.violations) == ("passed", 0)


def test_what_an_option_makes_impossible_is_left_out():
    def ids(node: Any) -> set[str]:
        return {invariant.id for invariant in invariants_of(node)}

    assert not {"every_lonely_record", "alone_after_close", "alone_in_time"} & ids(nodes.seen_inner)
    assert {"newest_version", "version_of_its_time", "loaded_first"} & ids(nodes.looked) == {"newest_version"}
    assert {"newest_version", "version_of_its_time", "loaded_first"} & ids(nodes.priced) == {"version_of_its_time"}
    assert {"newest_version", "version_of_its_time", "loaded_first"} & ids(nodes.named) == {"loaded_first"}
    assert {"newest_version", "version_of_its_time", "loaded_first"} & ids(nodes.named_then) == {"newest_version"}
    waiting = {"version_of_its_time", "row_of_every_record", "one_row_per_cause"}
    assert not waiting & ids(nodes.awaited) and waiting <= ids(nodes.priced)
    assert "equals_batch_join" in ids(nodes.both)
    assert not {"equals_batch_join", "live_keys"} & ids(nodes.both_versioned)
    assert "equals_batch_join" not in ids(nodes.both_functions) and "live_keys" in ids(nodes.both_functions)
    assert "row_of_every_window" not in ids(nodes.slid) and "aggregate_of_window" in ids(nodes.slid)


def test_a_sum_may_differ_in_its_last_digits():
    epoch = epoch_of("counted")
    epoch["rows"][0]["value"]["t"] = 2.0000000000000004
    assert judge("counted", epoch, "aggregate_of_window")["aggregate_of_window"].passed
    epoch["rows"][0]["value"]["t"] = 2.0000001
    assert not judge("counted", epoch, "aggregate_of_window")["aggregate_of_window"].passed


def test_an_invariant_reads_only_what_its_stage_has():
    for name, (node, make) in CLEAN.items():
        for invariant in invariants_of(node):
            names = set(relations_of(invariant.violations(node)))
            made = {name: query for name, query in derive(node).items() if name in names}
            derived = set(made)
            names |= {name for query in made.values() for name in relations_of(query(node))}
            names -= derived | {"touched"}
            assert names <= (_EPOCH if invariant.stage == "epoch" else _COMMITTED), name
            assert names <= set(make()), (name, invariant.id)


def test_the_last_record_of_a_key_is_found_by_its_place_alone():
    """With the value in its struct, ``max_by`` took three times as long over a million rows."""
    of_values = {
        rule.id
        for node, _ in CLEAN.values()
        for rule in invariants_of(node)
        if re.search(r"max_by\(struct\([^()]*\bvalue\b(?! IS)", rule.violations(node))
    }
    assert of_values == set()


def test_ids_are_unique_and_every_entry_says_what_it_is():
    assert len({invariant.id for invariant in ALL}) == len(ALL)
    for invariant in ALL:
        assert invariant.id.isidentifier()
        assert invariant.sentence.endswith(".") and invariant.families
        assert re.match("(Kafka Streams Join Semantics|Early joins|KIP-\\d+|Rivermeet design), ", invariant.source)
        assert not invariant.blocking or invariant.stage == "epoch"


def test_declarations_load_neither_spark_nor_great_expectations():
    names = ("invariants", "results", "gx.data_docs")
    code = (
        f"import sys, {', '.join(f'rivermeet.expectations.{name}' for name in names)}; "
        "print([m for m in ('pyspark', 'great_expectations', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
