"""A table that others have changed is refused by `rivermeet run`, also where nothing new would lead to its step."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Pipeline
from tests.infra.delta.odd_names import Shop
from tests.reliability import survived

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def shop(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    return Shop.below(tmp_path, settings)


@pytest.mark.prove
def test_an_external_append_far_below_is_refused_with_nothing_new(shop: Shop) -> None:
    pipeline = Pipeline("far")
    files = Files("orders/*.csv", "csv", {"number": "STRING", "price": "INT", "at": "BIGINT"})
    orders = pipeline.stream("orders", files, key=["number"], value=["price"], timestamp="at")
    dear = orders.filter("price > 1", "dear")
    dearest = dear.filter("price > 2", "dearest")
    shop.pipeline = pipeline
    shop.deliver("orders", "1", ("number", "price", "at"), ("o", 3, 25), ("p", 2, 26))
    assert shop.run(), shop.said
    assert shop.run(), "nothing new is green"
    path = shop.project.context(pipeline).paths(dearest).changelog
    spark = shop.project.sessions.open()
    spark.read.format("delta").load(path).write.format("delta").mode("append").save(path)
    shop.said.clear()
    assert not shop.run()
    failed = [line for line in shop.said if "FAILED" in line]
    assert (
        len(failed) == 1 and "'far.dearest'" in failed[0] and "rivermeet rebuild far --select dearest" in failed[0]
    ), failed
    survived("external modification: an append", "refused, also with nothing new to read")
