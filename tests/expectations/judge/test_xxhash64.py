"""The hash of DuckDB's judge is Spark's, of values of every type that a value may have."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from expectations.judge.xxhash64 import as_bigint

VALUES = (
    "named_struct('i', id, 's', repeat('aé😀', CAST(id AS INT)), 'n', IF(id % 3 = 0, NULL, id * 7))",
    "named_struct('t', CAST(id AS TINYINT), 'h', CAST(id AS SMALLINT), 'i', CAST(-id AS INT), 'b', id % 2 = 0)",
    "named_struct('d', CASE id WHEN 0 THEN -0.0D WHEN 1 THEN DOUBLE('NaN') ELSE id / 3 END, 'f', FLOAT(id / 7))",
    "named_struct('m', CAST(id * -1.25 AS DECIMAL(10,2)), 'w', CAST(id * -123456789012345678.5 AS DECIMAL(38,2)))",
    "named_struct('day', date_add(DATE'1969-12-20', CAST(id AS INT)), 'at', timestamp_micros(id * 1000001 - 5000000))",
    "named_struct('x', CAST(repeat('z', CAST(id AS INT)) AS BINARY), 'a', IF(id = 2, NULL, sequence(0L, id)))",
    "named_struct('a', transform(sequence(0, CAST(id AS INT)), n -> named_struct('k', n, 's', IF(n = 1, NULL, 'v'))))",
    "IF(id = 4, NULL, named_struct('inner', IF(id = 5, NULL, named_struct('n', IF(id = 6, NULL, id)))))",
)


@pytest.mark.parametrize("value", VALUES)
def test_it_is_sparks(spark: SparkSession, value: str) -> None:
    rows = spark.sql(f"SELECT value, xxhash64(value) AS hash FROM (SELECT {value} AS value FROM range(70))").toArrow()
    assert as_bigint(rows["value"]).to_pylist() == rows["hash"].to_pylist()


def test_a_map_has_none(spark: SparkSession) -> None:
    with pytest.raises(NotImplementedError, match="map"):
        as_bigint(spark.sql("SELECT map('a', 1) AS value").toArrow()["value"])
