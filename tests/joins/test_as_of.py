"""A key is looked up by a hash first, and keys that are equal have one hash.

table    {0.0} a        asks {-0.0}     found a: 0.0 and -0.0 are one key
table    {NaN} b        asks {NaN}      found b
table    {1.0} c        asks {1.5}      found nothing
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.joins.operator import EpochInputs
from rivermeet.joins.tables.as_of import row_at

ORDER = "STRUCT<head: BIGINT, side: INT, partition: INT, offset: BIGINT>"
ROW = "named_struct('k', {key}) AS key, 1L AS timestamp, 0 AS partition, named_struct('v', '{value}') AS right"


def _never(*_: Any) -> Any:
    raise AssertionError("no state is read")


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("mode", ["NO_CODEGEN", "FALLBACK"])
def test_keys_that_are_equal_are_found(spark: SparkSession, kind: str, mode: str) -> None:
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
    held = spark.conf.get("spark.sql.codegen.factoryMode")
    spark.conf.set("spark.sql.codegen.factoryMode", mode)
    try:
        found = row_at(asking, before, before.where("false"), "right", inputs).orderBy("number").collect()
    finally:
        spark.conf.set("spark.sql.codegen.factoryMode", str(held))
    assert [row.found and row.found.right.v for row in found] == list(asks.values())
