"""Rows of a table that an epoch cannot need are not read, and the epoch's rows are the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rivermeet.assets.epoch import operator_step
from rivermeet.infra.epochs.inputs import PinnedInputs
from rivermeet.joins.equal_columns import find_needed
from rivermeet.pipelines import Files, Pipeline
from tests.joins.epochs.any_cut import plans
from tests.world import Record, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = Files("none/*.csv", "csv", {"k": "BIGINT", "ref": "BIGINT", "n": "INT", "ts": "BIGINT"})
PIPELINE = Pipeline("numbers")
COLUMNS = "key STRUCT<{key}: BIGINT>, value STRUCT<ref: BIGINT, n: INT>"
KEYS = {"orders": "o", "people": "k", "visits": "k"}
TYPES = {name: COLUMNS.format(key=key) for name, key in KEYS.items()}


def _input(kind: str, name: str) -> Any:
    key = {KEYS[name]: "k"}
    return getattr(PIPELINE, kind)(name, FILES, key=key, value=["ref", "n"], timestamp="ts", partitions=1)


ORDERS, PEOPLE, VISITS = _input("table", "orders"), _input("table", "people"), _input("stream", "visits")
SOME = ORDERS.filter("n > 3", "some")
SELECT = {"l": "left.n", "r": "right.n"}
JOINED = {
    "orders": ORDERS.join(PEOPLE, "inner_fk", foreign_key="ref", select=SELECT),
    "cached": ORDERS.left_join(
        PEOPLE, "cached_fk", foreign_key="`ref`", select=SELECT, semantics="kafka-4", cache="epoch"
    ),
    "some": SOME,
    "both": ORDERS.outer_join(SOME, "same_key", select=SELECT),
    "pairs": PEOPLE.one_to_many_join(ORDERS, "pairs", foreign_key="ref", select=SELECT),
    "visited": VISITS.left_join(PEOPLE, "visited", select=SELECT),
}
BY_AN_EXPRESSION = ORDERS.join(PEOPLE, "by_an_expression", foreign_key="ref + 0", select=SELECT)


def history(seed: int, epochs: int) -> Iterator[dict[str, list[Record]]]:
    """Epochs of records whose keys grow; some of each epoch, and all that an order names, lie further back."""
    rng = random.Random(seed)
    for epoch in range(epochs):
        first = 100 * epoch if rng.random() < 0.7 else 0

        def record(names: Callable[[], int | None], first: int = first) -> Record:
            value = (names(), rng.randrange(10)) if rng.random() < 0.85 else None
            return (first + rng.randrange(30),), value, rng.randrange(1_000), 0

        def anybody(epoch: int = epoch) -> int | None:
            return rng.choice([None, *range(30 * (epoch + 1))])

        def somebody(first: int = first) -> int:
            return first + rng.randrange(30)

        yield {
            "orders": [record(rng.choice([anybody, somebody])) for _ in range(25)],
            "people": [record(somebody) for _ in range(0 if epoch == 1 else 10)],
            "visits": [record(somebody) for _ in range(10)],
        }


def run(world: World, seed: int, epochs: int) -> None:
    for epoch in history(seed, epochs):
        for node in (ORDERS, PEOPLE, VISITS):
            world.publish(node, epoch[node.name])
        for node in JOINED.values():
            world.run(node)


@pytest.mark.parametrize(
    ("seed", "epochs"), [(1, 2), *(pytest.param(seed, 5, marks=pytest.mark.prove) for seed in range(2, 8))]
)
def test_the_same_rows_with_and_without(
    spark: SparkSession,
    fold_session: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    epochs: int,
) -> None:
    narrow, wide = (World(tmp_path / name, spark, fold_session, TYPES) for name in ("narrow", "wide"))
    asked: list[str | None] = []
    given = PinnedInputs.table

    def table(pinned: PinnedInputs, side: str, moment: str, needed: str | None = None) -> Any:
        asked.append(needed)
        return given(pinned, side, moment, needed)

    monkeypatch.setattr(PinnedInputs, "table", table)
    run(narrow, seed, epochs)
    assert sum(needed is not None for needed in asked) >= 4 * epochs, "tables were narrowed"
    asked.clear()
    monkeypatch.setattr(operator_step, "find_needed", lambda operation: {})
    run(wide, seed, epochs)
    assert asked and not any(asked)
    for node in JOINED.values():
        assert narrow.rows(node) == wide.rows(node), node.name
        assert len(narrow.rows(node)) > 10, node.name


def test_rows_of_a_table_that_are_needed(spark: SparkSession, fold_session: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, fold_session, TYPES)
    world.publish(ORDERS, [((k,), (ref, 1), k, 0) for k, ref in [(1, 7), (2, 8), (3, 9), (4, None), (50, 8)]])
    world.publish(PEOPLE, [((k,), (0, 1), k, 0) for k in (7, 8, 9)])
    node = JOINED["orders"]
    world.run(node)
    world.publish(ORDERS, [((3,), None, 10, 0), ((4,), (9, 2), 11, 0)])
    world.publish(PEOPLE, [((8,), (0, 5), 12, 0)])
    world.run(node)
    pinned = world.step(node).pin(spark, plans(world, node)[-1])
    assert node.operation is not None
    needed = pinned.where_needed("left", find_needed(node.operation)["left"])
    assert needed == "((`key`.`o` BETWEEN 3L AND 4L)) OR ((`value`.`ref` BETWEEN 8L AND 8L))"
    rows = pinned.table("left", "before", needed).select("key.o").collect()
    assert sorted(row.o for row in rows) == [2, 3, 4, 50]


def test_a_side_that_is_needed_as_a_whole() -> None:
    assert BY_AN_EXPRESSION.operation is not None and JOINED["orders"].operation is not None
    assert find_needed(BY_AN_EXPRESSION.operation)["left"][1] == {}, "no way is known in which a row is needed"
    assert "right" not in find_needed(JOINED["orders"].operation), "old rows' foreign keys are not known"


def test_an_epoch_of_one_side_alone(spark: SparkSession, fold_session: SparkSession, tmp_path: Path) -> None:
    """No record of the right side: no left row is needed by its foreign key."""
    world = World(tmp_path, spark, fold_session, TYPES)
    world.publish(ORDERS, [((1,), (7, 1), 1, 0), ((2,), (7, 1), 2, 0)])
    world.publish(PEOPLE, [((7,), (0, 1), 1, 0)])
    node = JOINED["orders"]
    world.run(node)
    world.publish(ORDERS, [((2,), (8, 1), 3, 0)])
    world.run(node)
    assert node.operation is not None
    pinned = world.step(node).pin(spark, plans(world, node)[-1])
    needed = pinned.where_needed("left", find_needed(node.operation)["left"])
    assert needed == "((`key`.`o` BETWEEN 2L AND 2L)) OR ((false))"


def test_columns_of_text_are_no_ranges(spark: SparkSession, fold_session: SparkSession, tmp_path: Path) -> None:
    texts = {name: columns.replace("BIGINT", "STRING") for name, columns in TYPES.items()}
    world = World(tmp_path, spark, fold_session, texts)
    world.publish(ORDERS, [(("1",), ("7", 1), 1, 0)])
    world.publish(PEOPLE, [(("7",), ("", 1), 1, 0)])
    node = JOINED["orders"]
    world.run(node)
    assert node.operation is not None
    pinned = world.step(node).pin(spark, plans(world, node)[-1])
    assert pinned.where_needed("left", find_needed(node.operation)["left"]) is None
