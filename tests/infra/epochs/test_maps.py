"""A MAP among a table's columns, at any depth, is joined, folded, hashed and compared; a field keeps its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from assets.epoch.verify import verify
from expectations.evaluate import Judged, evaluate
from expectations.invariants import invariants_of
from expectations.results import Relation
from infra.delta.io import read
from infra.delta.lines import opened
from infra.engine.session import new_session
from pipelines import Files, Node, Pipeline
from tests.infra.sources.feeding import fed
from tests.reliability import handled
from tests.world import World

pytestmark = pytest.mark.slow

VALUE = "value STRUCT<boss: STRING, tags: MAP<STRING, INT>, parts: ARRAY<STRUCT<`Straße Nr`: MAP<STRING, DOUBLE>>>>"
TYPES = {"people": f"key STRUCT<id: STRING>, {VALUE}"}
NESTED = "ARRAY<STRUCT<`Straße Nr`: MAP<STRING, DOUBLE>>>"
FILES = Files(
    "p/*",
    "json",
    {"id": "STRING", "boss": "STRING", "tags": "MAP<STRING, INT>", "parts": NESTED, "at": "BIGINT"},
)


def declared() -> tuple[Node, Node]:
    made = Pipeline("maps")
    people = made.table("people", FILES, key=["id"], value=["boss", "tags", "parts"], timestamp="at", partitions=1)
    select = {"tags": "left.tags", "parts": "left.parts", "of": "right.tags"}
    return people, people.left_join(people, "staff", foreign_key="boss", select=select)


def states(world: World, node: Node) -> dict[str, str]:
    """The rules that compare whole rows, judged on all that is stored."""
    paths, spark = world.runner("maps").paths(node), world.spark

    def stored(path: str) -> Any:
        table = opened(path)
        assert table is not None
        return lambda: Relation(read(spark, path, table.version()), f"(SELECT * FROM delta.`{path}`)")

    relations = {"changelog": stored(paths.changelog), "now": stored(paths.table)}
    rules = [rule for rule in invariants_of(node) if rule.id == "fold_equals_table"]
    return {found.invariant.id: found.state for found in evaluate(spark, node, rules, Judged(relations, {}))}


def test_maps_are_joined_and_compared(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, new_session(spark), TYPES)
    people, staff = declared()
    nested = [{"Straße Nr": [("z", 1.5), ("a", -0.0)]}, None]
    world.publish(people, [(("a",), ("a", [("b", 2), ("a", 1)], nested), 1, 0), (("b",), ("a", [], None), 2, 0)])
    assert world.run(staff) is not None
    world.publish(people, [(("b",), ("a", [("c", 3)], nested), 3, 0)])
    world.publish(people, [(("c",), ("a", None, None), 4, 0)])
    assert world.run(staff) is not None
    rows = {row["id"]: row for row in world.rows(staff, "table")}
    assert {id: (row["tags"], row["of"]) for id, row in rows.items()} == {
        "a": ({"b": 2, "a": 1}, {"b": 2, "a": 1}),
        "b": ({"c": 3}, {"b": 2, "a": 1}),
        "c": (None, {"b": 2, "a": 1}),
    }
    assert rows["b"]["parts"] == [{"Straße Nr": {"z": 1.5, "a": 0.0}}, None]
    found = verify(world.runner("maps"), staff)
    assert found is not None and (found.differing, found.table_differs) == (0, 0)
    assert states(world, staff) == {"fold_equals_table": "passed"}
    spark.sql(f"UPDATE delta.`{world.runner('maps').paths(staff).table}` SET tags = map('c', 4) WHERE id = 'b'")
    assert states(world, staff) == {"fold_equals_table": "violated"}
    outcome = "joined, hashed and folded; its checks and `verify` compare it"
    handled("types", "a MAP among a table's columns, at any depth", outcome)


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_fields_are_called_what_they_were_declared_as(spark: SparkSession, tmp_path: Path, format: str) -> None:
    kind = "ARRAY<STRUCT<`Straße Nr`: INT, inner: STRUCT<zipCode: INT, `a:b>c`: STRING>>>"
    source = fed(spark, tmp_path, schema={"id": "STRING", "home": kind, "at": "BIGINT"}, format=format)
    value = [{"Straße Nr": 7, "inner": {"zipCode": 89073, "a:b>c": "x"}}]
    if format == "json":
        source.deliver(a__json='{"id":"a","home":[{"Straße Nr":7,"inner":{"zipCode":89073,"a:b>c":"x"}}],"at":1}\n')
    else:
        rows = spark.sql(f"SELECT 'a' AS id, CAST(array(struct(7, struct(89073, 'x'))) AS {kind}) AS home, 1L AS at")
        rows.coalesce(1).write.parquet(str(tmp_path / "data"))
        (tmp_path / "data" / "_SUCCESS").unlink()
    assert source.run().rows == 1
    assert source.records()[0]["value"]["home"] == value
    handled(
        "types",
        "names of fields in a declared STRUCT or ARRAY<STRUCT>",
        "as they were declared, whatever letters they have",
    )
