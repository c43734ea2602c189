"""A key is looked up by a hash first, and keys that are equal have one hash.

table    {0.0} a        asks {-0.0}     found a: 0.0 and -0.0 are one key
table    {NaN} b        asks {NaN}      found b
table    {1.0} c        asks {1.5}      found nothing
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochInputs
from rivermeet.joins.tables.as_of import row_at
from rivermeet.records.changelog import same_key

ORDER = "STRUCT<head: BIGINT, side: INT, partition: INT, offset: BIGINT>"
ROW = "named_struct('k', {key}) AS key, 1L AS timestamp, 0 AS partition, named_struct('v', '{value}') AS right"


def _never(*_: Any) -> Any:
    raise AssertionError("no state is read")


@pytest.fixture(params=["NO_CODEGEN", "FALLBACK"])
def evaluation(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """Expressions are interpreted or compiled."""
    held = spark.conf.get("spark.sql.codegen.factoryMode")
    spark.conf.set("spark.sql.codegen.factoryMode", request.param)
    yield
    spark.conf.set("spark.sql.codegen.factoryMode", str(held))


PARTS = ("0.0D, 'a'", "-0.0D, 'a'", "double('NaN'), 'a'", "1.5D, NULL", "NULL, 'a'", "1.5D, 'A'", None)
SAME = {(0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)}


@pytest.mark.usefixtures("evaluation")
@pytest.mark.parametrize("how", ["left", "left_anti"])
def test_keys_are_the_same_if_all_parts_are(spark: SparkSession, how: str) -> None:
    kind = "STRUCT<n: DOUBLE, s: STRING>"
    keys = (f"CAST(NULL AS {kind})" if p is None else f"CAST(struct({p}) AS {kind})" for p in PARTS)
    rows = spark.sql(" UNION ALL ".join(f"SELECT {n} AS number, {key} AS key" for n, key in enumerate(keys)))
    asked = rows.selectExpr("number AS found", "key AS asked")
    joined = rows.join(F.broadcast(asked), same_key("key", "asked"), how).collect()
    if how == "left":
        assert {(row.number, row.found) for row in joined if row.found is not None} == SAME
    else:
        assert [row.number for row in joined] == [PARTS.index(None)]


@pytest.mark.usefixtures("evaluation")
@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_keys_that_are_equal_are_found(spark: SparkSession, kind: str) -> None:
    rows = {"0.0": "a", "'NaN'": "b", "1.0": "c"}
    before = spark.sql(
        " UNION ALL ".join(
            f"SELECT {ROW.format(key=f'CAST({key} AS {kind})', value=value)}, CAST(NULL AS {ORDER}) AS order"
            for key, value in rows.items()
        )
    )
    asks = {"-0.0D": "a", "'NaN'": "b", "1.5": None}
    asking = spark.sql(
        " UNION ALL ".join(
            f"SELECT named_struct('k', CAST({key} AS {kind})) AS asked, {number} AS number, "
            f"CAST(named_struct('h', 1L, 's', 0, 'p', 0, 'o', {number}L) AS {ORDER}) AS order"
            for number, key in enumerate(asks)
        )
    )
    inputs = EpochInputs({}, _never, _never, _never, _never)
    found = row_at(asking, before, before.where("false"), "right", inputs).orderBy("number").collect()
    assert [row.found and row.found.right.v for row in found] == list(asks.values())
