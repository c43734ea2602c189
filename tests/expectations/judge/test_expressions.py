"""What users' SQL may be made of means the same to DuckDB as to Spark: the whole list, over values of every type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rivermeet.expectations.judge import expressions
from rivermeet.expectations.judge.duck import database
from rivermeet.expectations.judge.expressions import _unlike
from rivermeet.expectations.judge.spark_sql import duck
from tests.expectations.nodes import IN_PROCESS

ROWS = """
SELECT * FROM VALUES
  (1, 1, 2L, 1.5D, CAST(0.5 AS FLOAT), CAST(1.25 AS DECIMAL(10,2)), 'a', true,
   DATE'2020-02-29', TIMESTAMP'2020-02-29 12:30:00.000001Z'),
  (2, -2147483647, -9223372036854775807L, -0.0D, CAST(-0.0 AS FLOAT), CAST(-99999999.99 AS DECIMAL(10,2)), '', false,
   DATE'1969-12-31', TIMESTAMP'1969-12-31 23:59:59.999999Z'),
  (3, 2147483646, 9223372036854775806L, DOUBLE('NaN'), FLOAT('NaN'), CAST(99999999.99 AS DECIMAL(10,2)), 'straße',
   true, DATE'0001-01-02', TIMESTAMP'0001-01-01 00:00:00Z'),
  (4, 0, 0L, DOUBLE('Infinity'), FLOAT('-Infinity'), CAST(0 AS DECIMAL(10,2)), 'e\\u0301\\u00e9\\ud83d\\ude00 %_',
   false, DATE'9999-12-30', TIMESTAMP'9999-12-31 23:59:59Z'),
  (5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (6, 7, 7L, 7.0D, CAST(7.0 AS FLOAT), CAST(7.00 AS DECIMAL(10,2)), '7', true,
   DATE'2020-02-29', TIMESTAMP'2020-02-29 00:00:00Z')
  AS t(row, i, l, d, f, m, s, b, day, at)
"""
VALUES = ("i", "l", "d", "f", "m", "s", "day", "at")
LISTED: dict[str, list[str]] = {
    "Add": ["i + 1", "m + 1.25", "m + m", "d + i", "f + 1", "d + m", "day + 1"],
    "Sub": ["i - 1", "m - 0.5", "d - i", "0 - d", "day - 1"],
    # Decimals that overflow 18 digits where Spark has more fail in DuckDB, and Spark is asked.
    "Mul": ["i * 1", "m * 3", "m * 1.5", "d * i", "f * 2", "d * m", "0 * l"],
    "Neg": ["-i", "-l", "-d", "-f", "-m"],
    "Abs": ["abs(i)", "abs(l)", "abs(d)", "abs(f)", "abs(m)"],
    "EQ": [f"{one} = {one}" for one in VALUES] + ["i = l", "i = d", "i = m", "d = f", "l = d", "m = d", "day = at"],
    "NEQ": [f"{one} <> {one}" for one in VALUES] + ["i <> d", "s <> 'a'", "d <> 0"],
    "LT": ["i < l", "d < 0", "f < d", "m < i", "s < 'b'", "s < 'é'", "day < DATE'1970-01-01'", "at < '1970-01-01'"],
    "LTE": ["d <= d", "d <= 0.0", "l <= d", "s <= ''", "day <= '2020-02-29'"],
    "GT": ["d > 1e308", "d > 0", "f > 0", "m > d", "s > 'a'", "at > '2020-02-29 12:30:00'"],
    "GTE": ["d >= d", "f >= d", "l >= i", "s >= 'straße'", "at >= day"],
    "NullSafeEQ": [f"{one} <=> NULL" for one in VALUES] + ["d <=> f", "i <=> l", "d <=> d", "m <=> i"],
    "And": ["b AND i > 0", "b AND NULL"],
    "Or": ["b OR i > 0", "b OR NULL"],
    "Not": ["NOT b", "NOT i > 0", "s IS NOT NULL"],
    "Is": [f"{one} IS NULL" for one in VALUES],
    "Between": ["i BETWEEN 0 AND 7", "d BETWEEN -1 AND 7", "s BETWEEN 'a' AND 'b'", "m BETWEEN 1.25 AND d"],
    "In": ["i IN (1, 7, NULL)", "s IN ('a', '')", "d IN (0, 7)", "m IN (1.25, 7)", "l NOT IN (2, NULL)"],
    "Case": ["CASE WHEN b THEN i END", "CASE i WHEN 1 THEN 'one' ELSE s END", "CASE WHEN b THEN i ELSE d END"],
    "If": ["if(b, i, l)", "if(d > 0, m, i)", "if(b, s, 'x')"],
    "Coalesce": ["coalesce(i, 0)", "coalesce(d, 1.5)", "coalesce(s, 'none')", "coalesce(m, 0)", "coalesce(i, l, d)"],
    "Nullif": ["nullif(i, 1)", "nullif(d, 0)", "nullif(s, '')", "nullif(m, 7)", "nullif(d, d)"],
    "Length": ["length(s)", "length(s) > 1"],
    "Like": ["s LIKE 'a%'", "s LIKE '%ß_'", "s LIKE ''", "s LIKE '_'", "s LIKE '%_%'", "s NOT LIKE '%é%'"],
    "Literal": ["1", "1.50", "1e3", "'x'", "''"],
    "Boolean": ["true", "b = false"],
    "Null": ["NULL", "i + NULL"],
    "Paren": ["(i) + (1)"],
}
PLAIN = {"Column", "Identifier", "Dot", "Alias", "Tuple", "NullSafeNEQ"}
"""Names, and what is only part of another."""


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession) -> dict[str, list[Any]]:
    every = [one for listed in LISTED.values() for one in listed]
    rows = spark.sql(f"SELECT row, {', '.join(f'({one}) AS `{n}`' for n, one in enumerate(every))} FROM ({ROWS})")
    found = rows.orderBy("row").toArrow()
    return {one: found[str(n)].to_pylist() for n, one in enumerate(every)}


@pytest.fixture(scope="module")
def given(spark: SparkSession) -> pa.Table:
    return spark.sql(ROWS).toArrow()


def test_every_line_of_the_list_is_tried() -> None:
    assert {*expressions._SAME} == {*LISTED} | PLAIN


@pytest.mark.parametrize("name", LISTED)
def test_it_means_the_same(by_spark: dict[str, list[Any]], given: pa.Table, name: str) -> None:
    with database("1g", IN_PROCESS.spill) as connection:
        connection.register("given", given)
        for one in LISTED[name]:
            query = f"SELECT ({duck(f'SELECT {one}').removeprefix('SELECT ')}) AS x FROM given ORDER BY row"
            mine = connection.sql(query).to_arrow_table()["x"].to_pylist()
            assert list(map(repr, map(_number, mine))) == list(map(repr, map(_number, by_spark[one]))), one
            assert _unlike(one) is None or "DATE'" in one, one


def _number(value: Any) -> Any:
    """The same number whatever its type; 0.0 and -0.0 are one."""
    return value + 0 if isinstance(value, float) else float(value) if hasattr(value, "as_tuple") else value


@pytest.mark.parametrize(
    "one",
    [
        *("CAST(m AS INT)", "m / 3", "d / 2", "i % 2", "upper(s)", "s || d", "concat(s, i)", "substring(s, 0, 2)"),
        *("s LIKE 'a\\\\%'", "s LIKE i", "'a\\\\nb'", "round(d)", "floor(d)", "dayofweek(day)", "s RLIKE '^a'"),
        *("array_distinct(array(i))", "to_json(struct(i))", "hash(i)", "try_cast(s AS INT)", "date_trunc('day', at)"),
        *("(SELECT max(i) FROM t)", "sum(i) OVER ()", "exists(array(i), x -> x > 0)", "left.n ->", ""),
    ],
)
def test_all_else_is_for_spark(one: str) -> None:
    assert _unlike(one) is not None
