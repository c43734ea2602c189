"""What sqlglot leaves as it is: of each rewritten construct, the rows that Spark gives."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from rivermeet.expectations.judge.duck import database
from rivermeet.expectations.judge.spark_sql import duck
from rivermeet.infra.delta.changelog_files import between_sql
from tests.expectations.nodes import IN_PROCESS

_MANY = between_sql({p: p for p in range(0, 40, 2)}, {p: p + 3 for p in range(0, 60, 2)})
REWRITTEN = {
    "count_if of no rows": "SELECT count_if(id > 1) AS n FROM range(5) WHERE id > 9",
    "count_if of nulls": "SELECT count_if(CAST(NULL AS BOOLEAN)) AS n FROM range(2)",
    "offsets of many partitions": f"SELECT id AS n FROM (SELECT id, CAST(id % 62 AS INT) AS partition, id AS offset "
    f"FROM range(70)) WHERE {_MANY} ORDER BY id",
    "a whole row": "SELECT row.id AS n FROM (SELECT struct(*) AS row FROM (SELECT id FROM range(3))) ORDER BY n",
    "fields of a struct": "SELECT n FROM (SELECT row.* FROM (SELECT struct(id AS n) AS row FROM range(3))) ORDER BY n",
    "typeof": "SELECT CASE WHEN typeof(1.0D) = 'double' THEN 1 ELSE 0 END AS n",
    "pmod": "SELECT pmod(id - 3, 5) AS n FROM range(7) ORDER BY id",
}


@pytest.mark.parametrize("query", REWRITTEN.values(), ids=REWRITTEN)
def test_it_gives_what_spark_gives(spark: SparkSession, query: str) -> None:
    with database("1g", IN_PROCESS.spill) as connection:
        connection.execute("CREATE MACRO given(n) AS TABLE SELECT range AS id FROM range(n)")
        mine = connection.execute(duck(query).replace("RANGE(", "given(")).fetchall()
    assert [n for (n,) in mine] == [row.n for row in spark.sql(query).collect()]
