"""A MAP among a table's columns, at any depth, is compared and hashed; a field keeps its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rivermeet.assets.quality.relations.parts import frame_part
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.judge.spark import OnEngine
from rivermeet.expectations.results import Judged, Relation
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.pipelines import Files, Pipeline
from tests.expectations.nodes import IN_PROCESS
from tests.infra.sources.feeding import fed
from tests.reliability import handled

pytestmark = pytest.mark.slow

NESTED = "ARRAY<STRUCT<`Straße Nr`: MAP<STRING, DOUBLE>>>"
COLUMNS = {"id": "STRING", "tags": "MAP<STRING, INT>", "parts": NESTED, "at": "BIGINT"}
PARTS = f"CAST(array(named_struct('n', map('z', 1.5D, 'a', -0.0D)), null) AS {NESTED})"


def states(spark: SparkSession, stored: str) -> dict[str, str]:
    """What the rule about whole rows says, of a changelog of a and b, and a table with ``stored`` as a's tags."""
    made = Pipeline("maps")
    people = made.table("people", Files("p/*", "json", COLUMNS), key=["id"], value=["tags", "parts"], timestamp="at")
    record = f"named_struct('id', id) AS key, named_struct('tags', tags, 'parts', {PARTS}) AS value"
    changelog = f"""SELECT {record}, 1L AS timestamp, 0 AS partition, n AS offset, 1L AS epoch
        FROM VALUES ('a', map('x', 9), 0L), ('b', map(), 1L), ('a', map('b', 2, 'a', 1), 2L) AS v(id, tags, n)"""
    now = f"""SELECT id, tags, {PARTS} AS parts, 1L AS _timestamp, 0 AS _partition, n AS _offset
        FROM VALUES ('a', {stored}, 2L), ('b', map(), 1L) AS v(id, tags, n)"""
    paths = NodeTables("tables", "maps", "people")
    read = {"changelog": ("changelog", changelog), "now": ("table", now)}
    given = {name: frame_part(paths, table, 1, spark.sql(sql)) for name, (table, sql) in read.items()}
    relations = {
        name: lambda part=part: Relation("SELECT * FROM {given}", {"given": part}) for name, part in given.items()
    }
    rules = [rule for rule in invariants_of(people) if rule.id == "fold_equals_table"]
    found = [judge.evaluate(people, rules, Judged(relations)) for judge in (IN_PROCESS, OnEngine(lambda: spark))]
    mine, theirs = ({one.invariant.id: one.state for one in results} for results in found)
    assert mine == theirs, "by both engines"
    return mine


def test_rows_with_maps_are_compared(spark: SparkSession) -> None:
    assert states(spark, "map('b', 2, 'a', 1)") == {"fold_equals_table": "passed"}
    assert states(spark, "map('b', 2, 'a', 3)") == {"fold_equals_table": "violated"}
    # Of each left row of a foreign-key join.
    assert len(spark.sql("SELECT xxhash64(struct(map('a', 1)))").collect()) == 1
    handled("types", "a MAP among a table's columns, at any depth", "its checks are evaluated; `verify` compares it")


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
