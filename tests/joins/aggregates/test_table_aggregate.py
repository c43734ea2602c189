"""table → table under another key through the real epochs: a script, histories in any cut, and GROUP BY itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.delta.io import read
from rivermeet.pipelines import expr
from rivermeet.pipelines.operations import count, maximum, total
from tests.joins.one_input import AGGREGATIONS, COLUMNS, EACH, TYPES, random_histories, run, table
from tests.reference.aggregates import TableAggregate
from tests.reference.records import Record
from tests.world import World

Make = Callable[..., World]

MOVES = [
    ("a", ("0:x", 1, None, None), 1),
    ("b", ("0:x", 5, None, None), 2),
    ("a", ("0:y", 2, None, None), 3),  # moves: x without it, then y with it
    ("b", ("0:x", 4, None, None), 5),  # stays: one row
    ("b", ("0:x", 4, None, None), 4),  # an equal row, and an older one, are changes as others are
    ("a", None, 6),  # y has no rows any more
    ("a", None, 7),  # subtracts nothing
    ("c", (None, 9, None, None), 8),  # in no group
    ("c", ("0:x", 3, None, None), 9),
    ("c", (None, 3, None, None), 10),  # leaves x and joins none
    (None, ("0:x", 7, None, None), 11),  # no key, no row of the table
    ("b", None, 12),
]
"""Key, value, timestamp."""
MOVED = [
    ("0:x", (1, 1), 1),
    ("0:x", (2, 6), 2),
    ("0:x", (1, 5), 3),
    ("0:y", (1, 2), 3),
    ("0:x", (1, 4), 5),
    ("0:x", (1, 4), 4),
    ("0:y", None, 6),
    ("0:x", (2, 7), 9),
    ("0:x", (1, 4), 10),
    ("0:x", None, 12),
]
"""Group, count and sum of n, timestamp."""


def script() -> list[Record]:
    return [
        Record("left", None if key is None else f"0:{key}", value, time, 0, at, at)
        for at, (key, value, time) in enumerate(MOVES)
    ]


def expected(history: Sequence[Record]) -> list[Any]:
    aggregate = TableAggregate(lambda key, value: value[0], COLUMNS)
    return [(row.key, row.value, row.timestamp, row.trigger) for r in history for row in aggregate.process(r)]


def check(make: Make, histories: Sequence[Sequence[Record]], epochs: int, partitions: int = 1) -> None:
    node = table().group_by({"grp": expr("g", "STRING")}).aggregate(AGGREGATIONS, "sums", partitions)
    rows = run(make(f"table-{epochs}-{partitions}", a=TYPES), node, histories, epochs)
    found: dict[int, list[Any]] = {case: [] for case in range(len(histories))}
    for row in rows:
        value = row["value"] and tuple(row["value"][column] for column in COLUMNS)
        found[row["trigger"]["partition"]].append(
            (row["key"]["grp"], value, row["timestamp"], row["trigger"]["offset"])
        )
    for case, history in enumerate(histories):
        wanted = expected(history)
        if partitions > 1:
            # Only the rows of one group have an order.
            found[case].sort(key=lambda row: row[0])
            wanted.sort(key=lambda row: row[0])
        assert found[case] == wanted, (epochs, case)


def test_script_says_what_the_rules_say() -> None:
    assert [(group, value and (value[0], value[2]), time) for group, value, time, _ in expected(script())] == MOVED


@pytest.mark.cell(join="table-aggregate")
@pytest.mark.parametrize("epochs", [1, 3])
def test_script_and_random_histories(world: Make, epochs: int) -> None:
    check(world, [script(), *random_histories(1, 60, 30, first=1)], epochs)


def test_long_history_of_few_groups(world: Make) -> None:
    """Blocks of many sizes, and untouched rows beside touched ones."""
    check(world, random_histories(2, 2, 400), 3)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_the_same_with_one_record_per_epoch(world: Make) -> None:
    check(world, [script(), *random_histories(3, 20, 12, first=1)], EACH)


def test_rows_of_a_group_lie_where_its_key_is_hashed_to(world: Make, spark: SparkSession) -> None:
    histories = random_histories(4, 20, 20)
    check(world, histories, 2, partitions=3)
    made = world("hashed", a=TYPES)
    node = table().group_by({"grp": expr("g", "STRING")}).aggregate({"records": count()}, "sums", 3)
    rows = run(made, node, histories, 1)
    groups = sorted({row["key"]["grp"] for row in rows})
    keys = spark.createDataFrame([((group,),) for group in groups], "key STRUCT<any: STRING>")
    placed = dict(keys.selectExpr("key.any", "pmod(xxhash64(key), 3)").collect())
    assert {(row["key"]["grp"], row["partition"]) for row in rows} == set(placed.items())
    assert len(set(placed.values())) == node.partitions == 3


def test_folded_result_is_group_by_over_the_folded_input(world: Make, spark: SparkSession) -> None:
    """The invariant, with a key of two columns, one of them cast, and a column that is called like the group."""
    source = table()
    key = {"group": expr("substr(g, -1)", "STRING"), "sign": expr("CASE WHEN n <> 0 THEN signum(n) END", "INT")}
    columns = {"records": count(), "total": total("n"), "halves": total("x"), "money": total("d"), "top": maximum("k")}
    node = source.group_by(key).aggregate(columns, "sums", 4)
    made = world("invariant", a=TYPES)
    for epochs in (1, 4):
        run(made, node, random_histories(4 + epochs, 30, 30), epochs)
        read(spark, made.runner("one").paths(source).table).createOrReplaceTempView("folded_input")
        wanted = spark.sql(
            "SELECT substr(g, -1) AS `group`, CAST(signum(n) AS INT) AS sign, count(*) AS records, sum(n) AS total, "
            "sum(x) AS halves, sum(d) AS money, max(k) AS top FROM folded_input WHERE g IS NOT NULL AND n <> 0 "
            "GROUP BY ALL"
        )
        found = read(spark, made.runner("one").paths(node).table).select(*wanted.columns)
        assert found.schema.simpleString() == wanted.schema.simpleString()
        assert sorted(found.collect()) == sorted(wanted.collect())
