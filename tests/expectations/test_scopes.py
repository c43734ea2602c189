"""A fold's checks read the rows that it folded and the whole table; checks run alone read the whole changelog too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.assets.epoch.materialise import materialise
from rivermeet.assets.quality.judge_committed import evaluate_fold, judge_again
from rivermeet.assets.quality.relations.folded import find_fold
from rivermeet.expectations.results import InvariantResult
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.step import EpochResult
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Node, Pipeline
from tests.infra.delta.odd_names import Shop

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]

COLUMNS = ("id", "ref", "at")
Results = Sequence[InvariantResult]


def declared() -> Pipeline:
    made = Pipeline("scopes")

    def table(name: str, key: str) -> Any:
        files = Files(f"{name}/*.csv", "csv", {key: "STRING", "ref": "STRING", "at": "BIGINT"})
        return made.table(name, files, key=[key], value=["ref"], timestamp="at", partitions=2)

    left, other, right = table("left", "id"), table("other", "id"), table("right", "rid")
    select = {"mine": "left.ref", "theirs": "right.ref"}
    left.outer_join(other, "same_key", select=select)
    left.left_join(right, "foreign", foreign_key="ref", select=select)
    right.one_to_many_join(left, "pairs", foreign_key="ref", select=select)
    return made


JOINED = ("same_key", "foreign", "pairs")


@dataclass
class World:
    """Two epochs of every node, as they were judged, and the tables to change behind their back."""

    shop: Shop
    spark: SparkSession
    results: dict[str, EpochResult]
    judged: dict[str, Results]

    def node(self, name: str) -> Node:
        return self.shop.node(name)

    @property
    def context(self) -> EpochContext:
        return self.shop.project.context(self.shop.pipeline)

    def paths(self, name: str) -> NodeTables:
        return self.context.paths(self.node(name))

    def epoch(self, name: str) -> Results:
        """The checks of the last fold once more."""
        of = find_fold(self.node(name), self.paths(name), self.context.log)
        assert of is not None
        return evaluate_fold(self.context, of)

    def whole(self, name: str) -> Results:
        """All checks of everything."""
        judgement = judge_again(self.context, self.node(name), f"alone-{name}-{id(object())}")
        assert judgement is not None
        assert [v.invariant for v in judgement.verdicts if v.scope == "whole"]
        return judgement.verdicts

    def changed(self, name: str, sql: str, *restored: str) -> Iterator[None]:
        """The folded table changed by somebody, and put back."""
        path = f"delta.`{self.paths(name).table}`"
        version = self.spark.sql(f"DESCRIBE HISTORY {path} LIMIT 1").collect()[0].version
        self.spark.sql(sql.format(table=path))
        try:
            yield
        finally:
            self.spark.sql(f"RESTORE {path} TO VERSION AS OF {version}")


@pytest.fixture(scope="module")
def world(settings: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("scopes")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DAGSTER_HOME", str(home / "dagster"))
        shop = replace(Shop.below(home, settings), pipeline=declared())
        plain = replace(shop.project.settings, tables=str(home / "tables"), data=str(home / "data"))
        shop.project = replace(shop.project, settings=plain)
        made = World(shop, spark, {}, {})
        for number, files in enumerate(DELIVERIES, 1):
            for source, rows in files.items():
                header = ("rid", *COLUMNS[1:]) if source == "right" else COLUMNS
                shop.deliver(source, str(number), header, *rows)
            for node in shop.pipeline.stored:
                outcome = materialise(shop.project, node, f"run-{number}")
                assert outcome.result is not None and outcome.judgement is not None, node.name
                assert outcome.folded is not None and {v.state for v in outcome.folded.verdicts} == {"passed"}
                made.results[node.name] = outcome.result
                made.judged[node.name] = [*outcome.judgement.verdicts, *made.epoch(node.name)]
        yield made


DELIVERIES: Sequence[dict[str, list[tuple[Any, ...]]]] = (
    {
        "left": [("k1", "a", 1), ("k2", "a", 2), ("k3", "ab", 3), ("k4", "b", 4)],
        "other": [("k1", "x", 1), ("k5", "y", 2)],
        "right": [("a", "old", 1), ("ab", "both", 2), ("b", "bee", 3)],
    },
    {
        "left": [("k1", "b", 10), ("k6", "a", 11)],
        "other": [("k1", "z", 10)],
        "right": [("a", "new", 12)],
    },
)


def violated(results: Results) -> set[str]:
    assert "not evaluated" not in {r.state for r in results}, [r.error for r in results if r.error]
    return {r.invariant.id for r in results if not r.passed}


def of_table(results: Results) -> dict[str, Any]:
    return {r.invariant.id: r for r in results if r.invariant.stage in ("table", "commit")}


@pytest.mark.parametrize("name", ["left", "other", "right", *JOINED])
def test_both_scopes_pass_and_say_what_they_read(world: World, name: str) -> None:
    assert violated(world.judged[name]) == set()
    again = world.whole(name)
    narrow, whole = of_table(world.judged[name]), of_table(again)
    of_rows = {name for name, r in narrow.items() if r.scope == "epoch"}
    assert of_rows == narrow.keys() - {"unique_keys", "equals_batch_join"}
    assert {(r.scope, r.state) for r in whole.values()} == {("whole", "passed")}
    result = world.results[name]
    assert {narrow[name].checked for name in of_rows} == {result.rows}
    assert narrow["unique_keys"].checked == whole["unique_keys"].checked
    assert whole["dense_changelog"].checked == sum(end + 1 for end in result.note.ends.values()) > result.rows
    assert whole["unique_keys"].checked == world.spark.read.format("delta").load(world.paths(name).table).count()


UNTOUCHED = "id = 'k3'"


@pytest.mark.parametrize(
    ("sql", "epoch", "whole"),
    [
        ("UPDATE {table} SET theirs = 'no' WHERE id = 'k1'", {"fold_equals_table", "equals_batch_join"}, None),
        (
            f"UPDATE {{table}} SET theirs = 'no' WHERE {UNTOUCHED}",
            {"equals_batch_join"},
            {"fold_equals_table", "equals_batch_join"},
        ),
        (
            f"DELETE FROM {{table}} WHERE {UNTOUCHED}",
            {"table_size", "equals_batch_join"},
            {"table_size", "fold_equals_table", "equals_batch_join"},
        ),
    ],
    ids=["touched", "untouched", "lost"],
)
@pytest.mark.parametrize("name", ["foreign"])
def test_what_is_found_in_which_scope(
    world: World, name: str, sql: str, epoch: set[str], whole: set[str] | None
) -> None:
    for _ in world.changed(name, sql):
        assert violated(world.epoch(name)) == epoch
        assert violated(world.whole(name)) == (epoch if whole is None else whole)


def test_an_operator_that_forgets_a_reference_is_found_in_the_epoch(world: World) -> None:
    """(a, k1) ended with the second epoch, and 'a' was renamed: rows that are stored still are found by their parts."""
    row = "SELECT 'a', 'k1', 'a', 'old', 1L, 0, 0L"
    for _ in world.changed("pairs", f"INSERT INTO {{table}} {row}"):
        assert {"equals_batch_join", "fold_equals_table", "table_size"} >= violated(world.epoch("pairs"))
        assert "equals_batch_join" in violated(world.epoch("pairs"))
