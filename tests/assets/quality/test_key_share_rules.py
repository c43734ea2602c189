"""A part of the keys finds what is wrong with them, and eight parts find what one judgement of all keys does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from expectations.evaluate import evaluate, evaluate_parts
from expectations.invariants import ALL
from expectations.key_share import PARTS, KeyShare, key_share, of_share
from expectations.verdict import verdict
from tests.expectations.clean import CLEAN
from tests.expectations.nodes import judged_on
from tests.expectations.planted import PLANTED, Planted
from tests.expectations.test_invariants import epoch_of, named

RULES = {rule.id: rule for rule in ALL if rule.of_share is not None}
OF_RULES = [planted for planted in PLANTED if planted.breaks in RULES]
FIRST = list({planted.breaks: planted for planted in OF_RULES}.values())
EVERY_PART = [KeyShare(part) for part in range(PARTS)]
ABOUT_NO_KEY = {"loaded_first"}
"""What it also finds, an input that was not read to its end, is found with any key."""


def test_only_a_large_epoch_is_judged_in_parts_and_each_in_the_next_one():
    assert [key_share(epoch, 101, 100) for epoch in (1, 2, 8)] == [KeyShare(1), KeyShare(2), KeyShare(0)]
    assert key_share(1, 100, 100) is None
    assert {key_share(epoch, 1, 0) for epoch in range(3, 3 + PARTS)} == {*EVERY_PART}


def test_every_key_is_of_one_part(spark: Any):
    keys = "(SELECT CASE WHEN id > 0 THEN struct(id AS k, CAST(id AS STRING) AS t) END AS key FROM range(1000))"
    rows = [spark.sql(f"SELECT key FROM {of_share(keys, share)}").collect() for share in EVERY_PART]
    assert Counter(row.key for part in rows for row in part) == Counter(row.key for row in spark.sql(keys).collect())
    assert all(50 < len(part) < 250 for part in rows)


def test_rules_that_derive_rows_once_more_have_parts_and_block_nothing():
    assert set(RULES) == {
        *("every_pair_in_window", "every_lonely_record", "newest_version", "version_of_its_time", "loaded_first"),
        *("equals_batch_join", "aggregate_of_window", "aggregate_of_group"),
    }
    assert not [rule.id for rule in RULES.values() if rule.blocking]


def _agree(spark: Any, planted: Planted) -> None:
    epoch, rule, node = epoch_of(planted.node), RULES[planted.breaks], CLEAN[planted.node][0]
    planted.change(epoch)
    judged = judged_on(spark, node, epoch)
    (of_all,) = evaluate(spark, node, [rule], judged)
    parts = evaluate_parts(spark, node, [([rule], replace(judged, share=share)) for share in EVERY_PART])
    assert [part.error for part in parts] == [None] * PARTS
    found = Counter(str(row) for part in parts for row in part.sample)
    assert set(found) == {str(row) for row in of_all.sample} and of_all.state == "violated"
    assert planted.breaks in ABOUT_NO_KEY or set(found.values()) == {1}, "found in one part"
    for part, share in zip(parts, EVERY_PART, strict=True):
        assert (part.share, part.checked) == (share, None)
        assert verdict(part).details["judged_keys"] == str(share) and str(share) in verdict(part).description
        if part is parts[0]:
            assert spark.sql(part.sql).count() == part.violations


@pytest.mark.parametrize("planted", FIRST, ids=named)
def test_all_parts_find_what_is_found_of_all_keys(spark: Any, planted: Planted):
    _agree(spark, planted)


@pytest.mark.prove
@pytest.mark.parametrize("planted", [one for one in OF_RULES if one not in FIRST], ids=named)
def test_all_parts_find_what_is_found_of_all_keys_whatever_is_planted(spark: Any, planted: Planted):
    _agree(spark, planted)


@pytest.mark.prove
@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_no_part_finds_anything_in_a_clean_epoch(spark: Any, rule: Any):
    name = next(name for name, (node, _) in CLEAN.items() if rule.applies_to(node))
    node, judged = CLEAN[name][0], judged_on(spark, CLEAN[name][0], epoch_of(name))
    parts = evaluate_parts(spark, node, [([rule], replace(judged, share=share)) for share in EVERY_PART])
    assert {(part.state, part.error) for part in parts} == {("passed", None)}
