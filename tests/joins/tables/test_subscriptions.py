"""The view of a foreign-key join's subscriptions: bytes, order and prefix scans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import BinaryType, DoubleType, IntegerType, LongType, StringType, StructType

from rivermeet.joins.foreign_key.subscriptions import prefix, serialized, subscriptions
from rivermeet.pipelines import Files, ForeignKeyJoin, Pipeline
from tests.golden.load import tables
from tests.reference.foreign_key.join import key_bytes
from tests.reference.foreign_key.subscriptions import prefix_bytes
from tests.reference.histories import foreign_key_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOLDEN = tables()
FILES = Files("none/*.csv", "csv", {"k": "STRING", "v": "STRING", "ts": "BIGINT"})
BEFORE_THE_BAR = "CASE WHEN instr(v, '|') > 1 THEN substring_index(v, '|', 1) END"
RIGHT_KEY = StructType().add("k", StringType())
ROWS = {"p1": "f|1", "p10": "f|1", "p2": "f|2", "é": "f|1", "B": "ff|1", "C": "|1", "": "f|3", "fp1": "é|1"}


def view(spark: SparkSession) -> DataFrame:
    pipeline = Pipeline("view")
    left, right = (pipeline.table(n, FILES, key=["k"], value=["v"], timestamp="ts") for n in ("a", "b"))
    join = left.join(right, "ab", foreign_key=BEFORE_THE_BAR, select={"l": "left.v", "r": "right.v"}).operation
    assert isinstance(join, ForeignKeyJoin)
    rows: list[Any] = [((k,), (v,), 0) for k, v in ROWS.items()]
    types = "key STRUCT<k: STRING>, value STRUCT<v: STRING>, timestamp BIGINT"
    return subscriptions(join, spark.createDataFrame(rows, types), RIGHT_KEY)


def test_the_layout_is_the_documents(spark: SparkSession) -> None:
    (table,) = [t for t in GOLDEN if t["id"] == "s001.combined_key"]
    layouts = {rule["item"]: rule["layout"] for rule in table["rules"]}
    assert layouts["full key"] == [*layouts["scan prefix"], "serialized PK"]
    expected = sorted(
        (prefix_bytes(fk) + key_bytes(k), fk, k) for k, v in ROWS.items() if (fk := foreign_key_of(k, v)) is not None
    )
    found = view(spark).orderBy("combined_key").collect()
    assert [(bytes(r.combined_key), r.foreign_key.k, r.primary_key.k) for r in found] == expected


def test_the_hash_is_that_of_the_left_value(spark: SparkSession) -> None:
    values: list[Any] = [(k, (v,)) for k, v in ROWS.items()]
    hashes = spark.createDataFrame(values, "k STRING, value STRUCT<v: STRING>").selectExpr("k", "xxhash64(value)")
    known = dict(hashes.collect())
    assert all(row.left_hash == known[row.primary_key.k] for row in view(spark).collect())


def test_a_scan_finds_one_foreign_key_in_the_order_of_the_fan_out(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    scan = view(spark).where(F.startswith("combined_key", prefix(F.struct(F.lit("f").alias("k")), RIGHT_KEY)))
    by_bytes = [row.primary_key.k for row in scan.orderBy("combined_key").collect()]
    assert by_bytes == ["", "p1", "p10", "p2", "é"]
    assert by_bytes == [row.primary_key.k for row in scan.orderBy("primary_key").collect()]


def test_keys_of_numbers_and_of_several_columns(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    kind = StructType().add("n", IntegerType()).add("m", LongType()).add("s", StringType()).add("b", BinaryType())
    numbers = [0, 1, -1, 255, 2**31 - 1, -(2**31)]
    rows = [((n, m, "é", b"\x00\xff"),) for n in numbers for m in (n, -(2**63), 2**63 - 1)]
    keys = spark.createDataFrame(rows, StructType().add("key", kind))
    found = keys.select(serialized(F.col("key"), kind).alias("bytes"), "key").collect()
    assert [bytes(row.bytes) for row in found] == [
        key_bytes(row.key.n) + key_bytes(row.key.m) + "é".encode() + b"\x00\xff" for row in found
    ]


def test_a_key_without_bytes_to_sort_by_is_refused(spark: SparkSession) -> None:
    key = spark.sql("SELECT struct(1.5D AS d) AS key")["key"]
    with pytest.raises(TypeError, match="key column 'd' is double"):
        serialized(key, StructType().add("d", DoubleType()))
