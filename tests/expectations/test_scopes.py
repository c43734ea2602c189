"""An epoch's checks read what the epoch touches; checks run alone read everything, and find what the others cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from assets.epoch.materialise import materialise
from assets.quality.judge import Judge
from assets.quality.judge_committed import Judgement, judge_again, judge_epoch
from assets.quality.relations.affected import Affected, AuditCache
from assets.quality.relations.sql import version_before
from expectations.invariant import relations_of
from expectations.results import Relation
from infra.delta.changelog_files import epoch_rows
from infra.delta.layout import NodeTables
from infra.epochs.context import EpochContext
from infra.epochs.rows import Totals
from infra.epochs.stages.write import Written
from infra.epochs.step import EpochResult
from infra.settings import Settings
from pipelines import Files, Node, Pipeline
from tests.infra.delta.odd_names import Shop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COLUMNS = ("id", "ref", "at")


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
    judged: dict[str, Judgement]

    def node(self, name: str) -> Node:
        return self.shop.node(name)

    @property
    def context(self) -> EpochContext:
        return self.shop.platform.runner(self.shop.pipeline)

    def paths(self, name: str) -> NodeTables:
        return self.context.paths(self.node(name))

    def epoch(self, name: str) -> Judgement:
        """The last epoch's checks once more."""
        return judge_epoch(self.context, self.node(name), self.results[name].plan, f"again-{name}-{id(object())}")

    def whole(self, name: str) -> Judgement:
        """All checks of everything."""
        judgement = judge_again(self.context, self.node(name), f"alone-{name}-{id(object())}")
        assert judgement is not None
        return judgement

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
        patched.setattr("assets.epoch.platform._current", None)
        shop = replace(Shop.below(home, settings), pipeline=declared())
        plain = replace(shop.platform.settings, tables=str(home / "tables"), data=str(home / "data"))
        shop.platform.settings = plain
        made = World(shop, spark, {}, {})
        for number, files in enumerate(DELIVERIES, 1):
            for source, rows in files.items():
                header = ("rid", *COLUMNS[1:]) if source == "right" else COLUMNS
                shop.deliver(source, str(number), header, *rows)
            for node in shop.pipeline.stored:
                outcome = materialise(shop.platform, node, f"run-{number}")
                assert outcome.result is not None and outcome.judgement is not None, node.name
                made.results[node.name], made.judged[node.name] = outcome.result, outcome.judgement
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


def violated(judgement: Judgement) -> set[str]:
    assert "not evaluated" not in {r.state for r in judgement.results}, [r.error for r in judgement.results if r.error]
    return {r.invariant.id for r in judgement.results if not r.passed}


def of_table(judgement: Judgement) -> dict[str, Any]:
    return {r.invariant.id: r for r in judgement.results if r.invariant.stage == "table"}


@pytest.mark.parametrize("name", ["left", "other", "right", *JOINED])
def test_both_scopes_pass_and_say_what_they_read(world: World, name: str) -> None:
    assert violated(world.judged[name]) == set()
    again = world.whole(name)
    narrow, whole = of_table(world.judged[name]), of_table(again)
    assert {r.scope for r in narrow.values()} == {"epoch"}
    assert {(r.scope, r.state) for r in whole.values()} == {("whole", "passed")}
    result = world.results[name]
    assert {r.checked for r in narrow.values()} == {result.rows}
    assert whole["dense_changelog"].checked == sum(end + 1 for end in result.note.ends.values()) > result.rows
    assert whole["unique_keys"].checked == world.spark.read.format("delta").load(world.paths(name).table).count()
    assert {v.details["scope"] for v in again.verdicts if v.invariant == "dense_changelog"} == {"whole"}


UNTOUCHED = "id = 'k3'"


@pytest.mark.prove
@pytest.mark.parametrize(
    ("sql", "epoch", "whole"),
    [
        ("UPDATE {table} SET theirs = 'no' WHERE id = 'k1'", {"fold_equals_table", "equals_batch_join"}, None),
        (f"UPDATE {{table}} SET theirs = 'no' WHERE {UNTOUCHED}", set(), {"fold_equals_table", "equals_batch_join"}),
        (
            f"DELETE FROM {{table}} WHERE {UNTOUCHED}",
            {"table_size"},
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


@pytest.mark.prove
def test_an_operator_that_forgets_a_reference_is_found_in_the_epoch(world: World) -> None:
    """(a, k1) ended with the second epoch, and 'a' was renamed: rows that are stored still are found by their parts."""
    row = "SELECT 'a', 'k1', 'a', 'old', 1L, 0, 0L"
    for _ in world.changed("pairs", f"INSERT INTO {{table}} {row}"):
        assert {"equals_batch_join", "fold_equals_table", "table_size"} >= violated(world.epoch("pairs"))
        assert "equals_batch_join" in violated(world.epoch("pairs"))


def test_a_relation_that_cannot_be_narrowed_fails_for_all_who_name_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is judged on the whole table instead: what the epoch does not touch would be violations."""
    real, asked = Affected.with_keys, []

    def failing(self: Affected, rows: Relation, keys: Relation, columns: str = "* EXCEPT (__key)") -> Relation:
        if not asked:
            asked.append(rows)
            raise RuntimeError("no room for it")
        return real(self, rows, keys, columns)

    monkeypatch.setattr(Affected, "with_keys", failing)
    node, results = world.node("left"), of_table(world.epoch("left"))
    named = {name for name, r in results.items() if {"table", "now"} & set(relations_of(r.invariant.violations(node)))}
    assert {name for name, result in results.items() if result.state == "not evaluated"} == named
    assert len(named) > 1
    assert {result.state for name, result in results.items() if name not in named} == {"passed"}


def audited(world: World, name: str) -> AuditCache:
    """What the audit of a node's last epoch leaves for its checks."""
    result, paths = world.results[name], world.paths(name)
    rows = epoch_rows(world.spark, paths.changelog, result.plan.epoch, result.version)
    counts = Totals(result.rows, result.tombstones, result.one_sided, {}, {}, {}, result.sides)
    written = Written(result.plan, rows, {}, None, counts)
    found = Judge(world.node(name), "audit").run(world.context, written)
    assert found.cache is not None
    return found.cache


@contextmanager
def released(cache: AuditCache) -> Iterator[AuditCache]:
    yield cache
    cache.release()


@pytest.mark.prove
@pytest.mark.parametrize("name", JOINED)
def test_what_the_audit_read_is_not_read_again(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unread(*_: object, **__: object) -> None:
        raise AssertionError("inputs were read twice")

    cache, result = audited(world, name), world.results[name]
    with released(cache), monkeypatch.context() as patched:
        patched.setattr("assets.quality.judge_committed.input_relations", unread)
        judgement = judge_epoch(world.context, world.node(name), result.plan, f"cached-{name}", cache=cache)
        assert violated(judgement) == set()
        assert {r.scope for r in of_table(judgement).values()} == {"epoch"}
        for _ in world.changed(name, "UPDATE {table} SET theirs = 'no' WHERE id = 'k1'"):
            judgement = judge_epoch(world.context, world.node(name), result.plan, f"bad-{name}", cache=cache)
            assert violated(judgement) >= {"fold_equals_table", "equals_batch_join"}


@pytest.mark.prove
def test_what_the_audit_of_another_plan_read_is_not_used(world: World) -> None:
    with released(audited(world, "foreign")) as cache:
        plan = world.results["foreign"].plan
        assert cache.of(plan, world.spark) is not None
        assert cache.of(plan.model_copy(update={"epoch": plan.epoch + 1}), world.spark) is None
        assert cache.of(plan, cast(SparkSession, object())) is None


@pytest.mark.prove
def test_a_table_that_the_epoch_is_in_already_is_not_held_as_the_one_before(world: World) -> None:
    """Of a run after a killed one the fold may be done."""
    paths, result = world.paths("foreign"), world.results["foreign"]
    before = version_before(paths.table, result.plan)
    assert before is not None
    with released(audited(world, "foreign")) as cache:
        assert before not in cache.was
    judged = world.judged["foreign"]
    assert violated(judged) == set() and of_table(judged)["table_size"].state == "passed"
