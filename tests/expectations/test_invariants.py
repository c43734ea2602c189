"""Every invariant passes a clean epoch and catches what is planted in it."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest

from expectations.evaluate import InvariantResult, evaluate
from expectations.invariant import Invariant, relations_of
from expectations.invariants import ALL, invariants_of
from tests.expectations.nodes import judged_on
from tests.expectations.planted import CLEAN, PLANTED, Epoch, Planted


def epoch_of(name: str) -> Epoch:
    """A clean epoch whose relations have no row in common, so that a change stays in its own."""
    return {relation: copy.deepcopy(rows) for relation, rows in CLEAN[name][1]().items()}


def judge(spark: Any, name: str, epoch: Epoch, *only: str) -> dict[str, InvariantResult]:
    node = CLEAN[name][0]
    rules = [rule for rule in invariants_of(node) if not only or rule.id in only]
    results = evaluate(spark, node, rules, judged_on(spark, node, epoch))
    return {result.invariant.id: result for result in results}


@pytest.fixture(scope="module")
def clean(spark: Any) -> dict[str, dict[str, InvariantResult]]:
    return {name: judge(spark, name, epoch_of(name)) for name in CLEAN}


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


@pytest.mark.parametrize("planted", PLANTED, ids=lambda one: f"{one.breaks}-{one.node}-{one.what}".replace(" ", "_"))
def test_a_planted_violation_is_found(spark: Any, planted: Planted):
    epoch = epoch_of(planted.node)
    planted.change(epoch)
    broken = judge(spark, planted.node, epoch, planted.breaks)[planted.breaks]
    assert (broken.state, broken.error) == ("violated", None)
    assert broken.violations == len(broken.sample) > 0
    assert all(isinstance(text, str) for row in broken.sample for text in row.values())
    if planted is next(one for one in PLANTED if one.breaks == planted.breaks):
        assert spark.sql(broken.sql).count() == broken.violations


def test_one_violation_breaks_one_invariant(spark: Any):
    epoch = epoch_of("seen")
    epoch["rows"][0]["timestamp"] = None
    results = judge(spark, "seen", epoch)
    assert [id for id, result in results.items() if not result.passed] == ["record_shape"]


def test_an_invariant_reads_only_what_its_stage_has():
    of_epochs = {"rows", "earlier", "left", "right", "bounds", "before"}
    for name, (node, _) in CLEAN.items():
        for invariant in invariants_of(node):
            names = set(relations_of(invariant.violations(node)))
            assert names <= (of_epochs if invariant.stage == "epoch" else {"changelog", "table", "late"}), name


def test_ids_are_unique_and_every_entry_says_what_it_is():
    assert len({invariant.id for invariant in ALL}) == len(ALL)
    for invariant in ALL:
        assert invariant.id.isidentifier()
        assert invariant.sentence.endswith(".") and invariant.source and invariant.families
        assert not invariant.blocking or invariant.stage == "epoch"


def test_declarations_load_neither_spark_nor_great_expectations():
    code = (
        "import sys, expectations.invariants, expectations.evaluate, expectations.suite, "
        "expectations.history; print([m for m in ('pyspark', 'great_expectations', 'pandas') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
