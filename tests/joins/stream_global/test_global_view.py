"""Views over global tables, read through a stream's join: updates, deletes, nested views; nothing of them is stored."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.delta.lines import open_table
from rivermeet.joins.stream_global.global_view import resolve
from rivermeet.pipelines import Files, GlobalView, Pipeline, Stream
from tests.world import Record, World

Make = Callable[..., World]
SOLD = Files("none/*.csv", "csv", {"o": "STRING", "p": "STRING", "ts": "BIGINT"})
PRODUCTS = Files("none/*.csv", "csv", {"p": "STRING", "title": "STRING", "c": "STRING", "ts": "BIGINT"})
NAMED = Files("none/*.csv", "csv", {"c": "STRING", "name": "STRING", "in": "STRING", "ts": "BIGINT"})
TYPES = {
    "sold": "key STRUCT<o: STRING>, value STRUCT<p: STRING>",
    "products": "key STRUCT<p: STRING>, value STRUCT<title: STRING, c: STRING>",
    "countries": "key STRUCT<c: STRING>, value STRUCT<name: STRING, `in`: STRING>",
    "continents": "key STRUCT<c: STRING>, value STRUCT<name: STRING, `in`: STRING>",
}
TABLES = ("products", "countries", "continents")


class Shop:
    """Products made in countries, which lie in continents; a view of products, and one of that view."""

    def __init__(self) -> None:
        pipeline = self.pipeline = Pipeline("shop")
        self.sold = pipeline.stream("sold", SOLD, key=["o"], timestamp="ts", partitions=1)
        self.products = pipeline.global_table("products", PRODUCTS, key=["p"], value=["title", "c"], timestamp="ts")
        self.countries = pipeline.global_table("countries", NAMED, key=["c"], value=["name", "in"], timestamp="ts")
        self.continents = pipeline.global_table("continents", NAMED, key=["c"], value=["name", "in"], timestamp="ts")

    def view(self, how: str) -> GlobalView:
        """Products with the names of their countries."""
        verb = self.products.join if how == "inner" else self.products.left_join
        select = {"title": "left.title", "country": "right.name", "lies_in": "right.`in`"}
        return verb(self.countries, f"made_{how}", key="c", select=select)

    def nested(self, view: GlobalView, how: str) -> GlobalView:
        """That view with the names of continents."""
        verb = view.join if how == "inner" else view.left_join
        select = {"title": "left.title", "country": "left.country", "continent": "right.name"}
        return verb(self.continents, f"placed_{how}", key="lies_in", select=select)

    def read(self, view: GlobalView, how: str) -> Stream:
        """What was sold, looked up in a view."""
        verb = self.sold.join if how == "inner" else self.sold.left_join
        columns = {column: f"right.{column}" for column in view.value}
        return verb(view, f"{view.name}_{how}", key="p", select={**columns, "at": "right._timestamp"})


def looked_up(tables: dict[str, dict[str, Any]], product: str | None, nested: str | None, view: str) -> Any:
    """Columns of a view's row in plain Python; None where the view has no row."""
    if product not in tables["products"]:
        return None
    (title, code), at = tables["products"][product]
    country = tables["countries"].get(code)
    if country is None and view == "inner":
        return None
    (name, lies_in), country_at = country or ((None, None), 0)
    if nested is None:
        return {"title": title, "country": name, "lies_in": lies_in, "at": max(at, country_at)}
    continent = tables["continents"].get(lies_in or "")
    if continent is None and nested == "inner":
        return None
    (placed, _), continent_at = continent or ((None, None), 0)
    return {"title": title, "country": name, "continent": placed, "at": max(at, country_at, continent_at)}


def random_epochs(seed: int, count: int) -> list[dict[str, list[Record]]]:
    """Updates and deletes of all tables with what is sold in the same epoch; timestamps run in no order."""
    rng = random.Random(seed)

    def table(keys: str, values: Callable[[], Any]) -> list[Record]:
        chosen = [rng.choice(keys) for _ in range(rng.randint(3, 6))]
        return [((k,), None if rng.random() < 0.2 else values(), rng.randint(0, 99), 0) for k in chosen]

    def some(text: str) -> str | None:
        return rng.choice([*text, None])

    return [
        {
            "products": table("pqr", lambda: (rng.choice("TUV"), some("aabbx"))),
            "countries": table("ab", lambda: (rng.choice("AB"), some("eeef"))),
            "continents": table("ee", lambda: (rng.choice("EF"), None)),
            "sold": [((f"o{i}",), (some("ppqqrrz"),), rng.randint(0, 99), 0) for i in range(12)],
        }
        for _ in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("view", "how"), [("inner", "left"), pytest.param("left", "inner", marks=pytest.mark.prove)])
def test_any_updates_of_either_table(world: Make, tmp_path: Path, view: str, how: str) -> None:
    shop = Shop()
    made = shop.view(view)
    views = {None: made} | {nested: shop.nested(made, nested) for nested in (how,)}
    read = {nested: shop.read(each, how) for nested, each in views.items()}
    here = world(f"{view}-{how}", **TYPES)
    tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
    expected: dict[str | None, list[Any]] = {nested: [] for nested in read}
    for epoch in random_epochs(7, 3):
        for name in TABLES:
            here.publish(shop.pipeline.node(name), epoch[name])
            for key, value, timestamp, _ in epoch[name]:
                tables[name].pop(key[0], None)
                if value is not None:
                    tables[name][key[0]] = (value, timestamp)
        here.publish(shop.sold, epoch["sold"])
        for nested, node in read.items():
            here.run(node)
            for key, value, timestamp, _ in epoch["sold"]:
                found = looked_up(tables, value[0], nested, view)
                if found is not None or how == "left":
                    expected[nested].append((key[0], timestamp, found or dict.fromkeys(node.value)))
    for nested, node in read.items():
        assert [(r["key"]["o"], r["timestamp"], r["value"]) for r in here.rows(node)] == expected[nested], nested
    assert any(r[2].get("country") for r in expected[None])
    for node in shop.pipeline.nodes:
        stored = open_table(here.runner("shop").paths(node).changelog) is not None
        assert stored == node.is_stored, node.name
        assert (tmp_path / f"{view}-{how}" / "tables" / "shop" / node.name).exists() == node.is_stored


def test_an_update_alone_causes_nothing(world: Make) -> None:
    shop = Shop()
    node = shop.read(shop.view("left"), "left")
    here = world(**TYPES)
    for name in TABLES:
        here.publish(shop.pipeline.node(name), [])
    here.publish(shop.products, [(("p",), ("T", "a"), 1, 0)])
    here.publish(shop.sold, [(("o1",), ("p",), 2, 0)])
    here.run(node)
    here.publish(shop.countries, [(("a",), ("A", "e"), 3, 0)])
    assert here.run(node) is None
    here.publish(shop.sold, [(("o2",), ("p",), 4, 0)])
    here.run(node)
    assert [r["value"]["country"] for r in here.rows(node)] == [None, "A"]
    assert shop.pipeline.node("made_left") not in shop.pipeline.stored


def test_a_view_over_a_table_with_itself(world: Make) -> None:
    """A country that lies in another: the same changelog under two places of the view."""
    shop = Shop()
    view = shop.countries.left_join(
        shop.countries, "whole", key="`in`", select={"own": "left.name", "in": "right.name"}
    )
    node = shop.sold.left_join(view, "found", key="p", select={"own": "right.own", "whole": "right.`in`"})
    here = world(**TYPES)
    here.publish(shop.countries, [(("a",), ("A", "b"), 1, 0), (("b",), ("B", None), 1, 0)])
    here.publish(shop.sold, [(("o1",), ("a",), 2, 0), (("o2",), ("b",), 3, 0)])
    here.run(node)
    assert [r["value"] for r in here.rows(node)] == [{"own": "A", "whole": "B"}, {"own": "B", "whole": None}]


@pytest.mark.cell(join="global-global", how=("inner", "left"))
def test_the_views_rows_themselves(spark: SparkSession) -> None:
    shop = Shop()
    columns = "timestamp BIGINT, partition INT, offset BIGINT"
    left = spark.createDataFrame(
        [(("p",), ("T", "a"), 5, 0, 7), (("q",), ("U", "x"), 6, 0, 8), (("r",), ("V", None), 6, 0, 9)],
        f"{TYPES['products']}, {columns}",
    )
    right = spark.createDataFrame([(("a",), ("A", "e"), 9, 0, 3)], f"{TYPES['countries']}, {columns}")

    def rows(how: str) -> list[tuple[Any, ...]]:
        found = resolve(shop.view(how).join_spec, left, right)
        return sorted(map(tuple, found.select("key.p", "value.*", "timestamp", "offset").collect()))

    assert rows("inner") == [("p", "T", "A", "e", 9, 7)]
    assert rows("left") == [
        ("p", "T", "A", "e", 9, 7),
        ("q", "U", None, None, 6, 8),
        ("r", "V", None, None, 6, 9),
    ]
