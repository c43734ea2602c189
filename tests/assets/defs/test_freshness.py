"""A node may be as old as its pipeline's sources, and what it and all above it wait for windows and grace."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import dagster as dg
import pytest

from rivermeet.assets.defs.automation import freshness_policy
from rivermeet.assets.defs.node_assets import node_assets
from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline

_FILES = Files("none/*.csv", "csv", {"id": "STRING", "n": "STRING", "at": "BIGINT"})
_OPTIONS: dict[str, Any] = {"key": ["id"], "value": ["n"], "timestamp": "at"}
SHOP = Pipeline("shop", freshness="1h")
orders = SHOP.stream("orders", _FILES, **_OPTIONS)
payments = SHOP.stream("payments", _FILES, **_OPTIONS)
prices = SHOP.table("prices", _FILES, history="2d", **_OPTIONS)
people = SHOP.global_table("people", _FILES, **_OPTIONS)
_N = {"n": "left.n"}
settled = orders.left_join(payments, "settled", window=JoinWindow("1d", "7d", grace="1h"), select=_N)
back = orders.join(payments, "back", window=JoinWindow("3h", "-2h"), select=_N, max_task_idle_ms=60_000)
forever = orders.join(payments, "forever", window=JoinWindow(0, 0), select=_N, max_task_idle_ms=None)
priced = settled.join(prices, "priced", grace="5m", select=_N)
named = priced.left_join(people, "named", key="n", select=_N)
counted = named.to_table("counted")
merged = back.merge(settled, "merged")

HOUR = timedelta(hours=1)
WAITED = {
    orders: timedelta(0),
    people: timedelta(0),
    settled: 7 * 24 * HOUR + HOUR,
    back: 3 * HOUR + timedelta(minutes=1),
    forever: timedelta(0),
    priced: 7 * 24 * HOUR + HOUR + timedelta(minutes=5),
    named: 7 * 24 * HOUR + HOUR + timedelta(minutes=5),
    counted: 7 * 24 * HOUR + HOUR + timedelta(minutes=5),
    merged: 7 * 24 * HOUR + HOUR,
}


@pytest.mark.parametrize("node", WAITED, ids=lambda node: node.name)
def test_the_window_is_freshness_and_all_waits_above(node: Node) -> None:
    expected = dg.FreshnessPolicy.time_window(HOUR + WAITED[node])
    assert freshness_policy(node) == expected
    assert {spec.freshness_policy == expected for spec in node_assets(node).specs} == {True}


def test_by_default_it_is_two_ticks_of_the_schedule() -> None:
    plain = Pipeline("plain").stream("orders", _FILES, **_OPTIONS)
    assert freshness_policy(plain) == dg.FreshnessPolicy.time_window(timedelta(minutes=30))


@pytest.mark.parametrize(("freshness", "says"), [("59s", "make it '1m' or more"), ("soon", "'soon' is not a duration")])
def test_what_cannot_be_a_freshness_is_refused(freshness: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Pipeline("shop", freshness=freshness)
