"""What an operator's epoch costs is on record: a new shuffle or a lost broadcast is a difference that a review sees.

The texts beside ``tests/joins/plans`` are written by ``python -m tests.joins.plans``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.engine.conf import SESSION
from rivermeet.pipelines import limits
from rivermeet.pipelines.family import families, family_of
from tests.joins.plans import FOLDER
from tests.joins.plans.epochs import LARGEST, NODES, TYPES, Planner
from tests.joins.plans.skeleton import difference
from tests.world import World

pytestmark = pytest.mark.prove

LIMIT = int(SESSION["spark.sql.codegen.hugeMethodLimit"])


@pytest.fixture(scope="module")
def planner(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, fold_session: SparkSession
) -> Iterator[Planner]:
    root = tmp_path_factory.mktemp("plans")
    planner = Planner(World(root, spark, fold_session, TYPES, as_sources_do=True))
    yield planner
    planner.close()


def golden(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text()


def largest_method(text: str) -> int:
    return int(text.rpartition(LARGEST)[2])


@pytest.mark.parametrize("name", NODES)
def test_an_epoch_is_planned_as_it_was(planner: Planner, name: str) -> None:
    new = difference(planner.golden(name), golden(name))
    assert new is None, f"{name}: {new}; if that is meant, `python -m tests.joins.plans` writes it down"


@pytest.mark.parametrize("name", NODES)
def test_no_method_of_an_operator_is_left_to_the_interpreter(name: str) -> None:
    assert largest_method(golden(name)) <= LIMIT


@pytest.mark.parametrize("name", ["stream_table", "stream_stream_inner"])
def test_what_lies_by_partition_meets_there(planner: Planner, name: str) -> None:
    """A backlog's records are shuffled once, to be put in order, and neither to be joined nor to be numbered."""
    shuffles = re.findall(r"Exchange .*", planner.backlog(name))
    assert shuffles == ["Exchange hashpartitioning(partition)"] * 2


def test_a_stage_of_many_columns_is_one_large_method(planner: Planner) -> None:
    many = [f"CASE WHEN offset > {n} THEN timestamp + {n} ELSE offset * {n} END AS c{n}" for n in range(90)]
    assert largest_method(planner.golden("filter_stream", lambda rows: rows.selectExpr("*", *many))) > LIMIT


def test_every_operator_has_a_plan_on_record() -> None:
    made = [node.operation for node in NODES.values() if node.operation]
    planned = {family_of(operation).operators[operation.semantics] for operation in made}
    assert planned == {module for family in families().values() for module in family.operators.values()}
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(NODES)


def test_a_new_shuffle_is_planned(planner: Planner) -> None:
    found = planner.golden("filter_stream", lambda rows: rows.repartition("key"))
    new = difference(found, golden("filter_stream"))
    assert new is not None and re.search(r"\b(\d) shuffles, were (?!\1)\d", new)


def test_a_lost_broadcast_is_planned(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an epoch's keys were not sent to the tables any more."""
    monkeypatch.setattr(limits, "BROADCAST_ROWS", 0)
    new = difference(planner.golden("foreign_key"), golden("foreign_key"))
    assert new is not None and re.search(r"0 broadcasts, were \d", new)


def test_another_order_of_as_many_nodes_is_planned() -> None:
    text = golden("foreign_key")
    assert difference(text, text) is None
    new = difference(text.replace("Sort partition, sequence", "Sort partition, offset", 1), text)
    assert new is not None and new.endswith("is 'Sort partition, offset', was 'Sort partition, sequence'")
