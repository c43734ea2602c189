"""A pipeline's own rules are judged and shown like the built-in ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rivermeet.assets.defs.node_assets import node_assets
from rivermeet.expectations.invariants import ALL, invariants_of
from rivermeet.expectations.judge.expressions import unlike
from rivermeet.expectations.judge.spark import OnEngine
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import DeclarationError, Files, Node, Pipeline
from tests.assets.home import asked
from tests.expectations.clean import record
from tests.expectations.nodes import IN_PROCESS, judged_on
from tests.infra.delta.odd_names import Shop

CHEAP = "SELECT key, value.price FROM {rows} WHERE value.price > 100"


def priced(name: str = "priced") -> tuple[Pipeline, Node]:
    pipeline = Pipeline(name)
    files = Files("orders/*.csv", "csv", {"id": "INT", "n": "STRING", "price": "INT", "at": "BIGINT"})
    orders = pipeline.table("orders", files, key=["id"], value=["n", "price"], timestamp="at", partitions=2)
    return pipeline, orders


def test_it_comes_after_the_built_in_ones_and_says_where_it_is_from() -> None:
    pipeline, orders = priced()
    built_in = invariants_of(orders)
    pipeline.check(orders, "cheap", "No order is dear.", CHEAP, severity="critical", blocking=True)
    pipeline.check(orders, "few", "There are few orders.", "SELECT * FROM {table} WHERE id > 9")
    *others, cheap, few = invariants_of(orders)
    assert tuple(others) == built_in
    assert (cheap.stage, cheap.blocking, cheap.severity, cheap.needs_table) == ("epoch", True, "critical", False)
    assert (few.stage, few.blocking, few.severity, few.needs_table) == ("table", False, "warning", True)
    assert (cheap.sentence, cheap.source) == ("No order is dear.", "pipeline priced, declared there")
    checks = {key.name: key.asset_key.path for key in node_assets(orders).check_keys}
    assert checks["cheap"] == ["priced", "orders_changelog"] and checks["few"] == ["priced", "orders_table"]


def test_it_is_not_called_like_a_built_in_one() -> None:
    pipeline, orders = priced()
    pipeline.check(orders, ALL[-1].id, "It holds.", CHEAP)
    with pytest.raises(
        DeclarationError, match=f"node 'orders': check '{ALL[-1].id}': a built-in invariant is called so"
    ):
        invariants_of(orders)


def test_its_query_is_judged(spark: Any) -> None:
    pipeline = Pipeline("shop")
    files = Files("none/*.csv", "csv", {"id": "INT", "n": "STRING", "at": "BIGINT"})
    clicks = pipeline.stream("clicks", files, key=["id"], value=["n"], timestamp="at")
    pipeline.check(clicks, "short", "A click is short.", "SELECT * FROM {rows} WHERE value.n RLIKE '^.{{3,}}$'")
    rows = [record(1, 5, 0, "abc", epoch=1), record(1, 5, 1, "ab", epoch=1)]
    rule = invariants_of(clicks)[-1]
    judge = OnEngine(lambda: spark)
    assert unlike(clicks, rule) == "REGEXP_LIKE(value.n, '^.{3,}$')"
    (found,) = judge.evaluate(clicks, [rule], judged_on(clicks, {"rows": rows}))
    assert (found.invariant.id, found.violations, found.checked) == ("short", 1, 2)
    assert found.sample[0]["value"] == '{"n": "abc"}'


def test_braces_of_a_text_are_no_relation() -> None:
    pipeline, orders = priced()
    pipeline.check(orders, "odd", "No name is odd.", "SELECT * FROM {rows} WHERE value.n = '{{id:3}}'")
    rows = [record(1, 5, 0, "{id:3}", epoch=1)]
    (found,) = IN_PROCESS.evaluate(orders, [invariants_of(orders)[-1]], judged_on(orders, {"rows": rows}))
    assert (found.error, found.violations) == (None, 1)


@pytest.fixture
def shop(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    yield replace(Shop.below(tmp_path, settings), pipeline=priced()[0])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_warns_and_a_blocking_rule_refuses(shop: Shop) -> None:
    orders = shop.node("orders")
    shop.pipeline.check(orders, "cheap", "No order is dear.", CHEAP)
    columns = ("id", "n", "price", "at")
    shop.deliver("orders", "1", columns, (1, "x", 5, 1), (2, "y", 500, 2))
    assert shop.run(), shop.said
    message = "VIOLATED priced/orders_changelog: No order is dear. 1 violation in 2 rows."
    assert [line.strip() for line in shop.said if "VIOLATED" in line] == [message]
    quality = open_table(shop.project.quality.table)
    assert quality is not None
    (line,) = (r for r in quality.to_pyarrow_dataset().to_table().to_pylist() if r["invariant"] == "cheap")
    assert (line["state"], line["severity"], line["scope"]) == ("violated", "warning", "epoch")
    (bad,) = asked(shop.project, line["sql"])
    assert (bad["key"]["id"], bad["price"]) == (2, 500)
    shop.pipeline.check(
        orders, "named", "An order has a name.", "SELECT * FROM {rows} WHERE value.n IS NULL", blocking=True
    )
    shop.deliver("orders", "2", columns, (3, "", 5, 3))
    shop.said.clear()
    assert not shop.run()
    assert any("An order has a name." in line for line in shop.said), shop.said
