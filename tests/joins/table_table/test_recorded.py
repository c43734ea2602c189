"""Joins of tables, row for row: against Kafka Streams' recorded answers, the reference, and Spark SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rivermeet.assets.replay.cases import KEY, Case, parse_case
from rivermeet.assets.replay.run import Way, at_once, replay
from rivermeet.assets.replay.run import records as frame_of
from rivermeet.joins.operator import EpochInputs, compute
from rivermeet.joins.order import LEFT, RIGHT, in_processing_order
from rivermeet.pipelines import Files, Pipeline, TimeWindows, count
from tests.joins.recorded import WAYS, check_deletes, check_recorded, check_reference, kinds_of, types_of
from tests.reference.tables.record import TYPES, case

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(900)


@pytest.mark.cell
@pytest.mark.slow
@pytest.mark.parametrize(("join", "how", "semantics"), kinds_of("table-table"))
def test_kafka_streams_answered_the_same(spark: SparkSession, join: str, how: str, semantics: str) -> None:
    check_recorded(spark, join, how, semantics)


@pytest.mark.cell
@pytest.mark.prove
@pytest.mark.parametrize(("join", "how"), types_of("table-table"))
def test_profile_3_1_is_the_reference(spark: SparkSession, join: str, how: str) -> None:
    check_reference(spark, join, how)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_deletes_that_leave_no_trace(spark: SparkSession, way: Way) -> None:
    check_deletes(spark, "table-table", way)


@pytest.mark.parametrize("how", TYPES["tt"])
def test_the_folded_rows_are_the_batch_join_of_the_folded_tables(spark: SparkSession, how: str) -> None:
    given = [case(1, "tt", "plain", "kafka-4", how, i) | {"semantics": "3.1"} for i in range(60)]
    given += [one | {"cache": True, "commit_every": 4} for one in given]
    folded: dict[tuple[int, Any], Any] = {}
    for at, answer in enumerate(replay(spark, given, "3.1", at_once)):
        folded |= {(at, row["key"]): row["value"] for row in answer["output"]}
    cases = [one for one in (parse_case(one, "3.1") for one in given) if isinstance(one, Case)]
    joined = tables(spark, cases, "left").join(tables(spark, cases, "right"), list(KEY), _SPARK[how])
    rows = joined.selectExpr("c", "k", "concat(coalesce(left, 'null'), '-', coalesce(right, 'null'))").collect()
    assert {key: value for key, value in folded.items() if value is not None} == {(c, k): v for c, k, v in rows}
    assert len(rows) > len(given)


_SPARK = {"inner": "inner", "left": "left", "outer": "full"}


def tables(spark: SparkSession, cases: list[Case], side: str) -> DataFrame:
    """The last value of each key of each case, by Spark SQL."""
    from pyspark.sql import functions as F

    places = ((at, offset, r) for at, one in enumerate(cases) for offset, r in enumerate(one.input))
    rows = frame_of(spark, places, side, False).where("key IS NOT NULL")
    last = rows.groupBy("key").agg(F.max_by("value", "offset").alias("value")).where("value IS NOT NULL")
    return last.select("key.c", "key.k", F.col("value.v").alias(side))


@pytest.mark.parametrize("window_map", [None, 10, -10])
def test_a_window_meets_the_right_window_so_much_later(spark: SparkSession, window_map: int | None) -> None:
    """Left windows 0, 10, 20 and right ones 10, 20: a right-only row has the key of the left row that is missing."""
    pipeline = Pipeline("windows")
    files = Files("none", "json", {"k": "STRING", "n": "BIGINT", "ts": "BIGINT"})
    tables = []
    for name in ("l", "r"):
        stream = pipeline.stream(name, files, key=["k"], value=["n"], timestamp="ts")
        tables.append(stream.group_by_key().windowed_by(TimeWindows(10)).aggregate({"c": count()}, f"{name}_counts"))
    select = {"l": "left.c", "r": "right.window_start"}
    node = tables[0].outer_join(tables[1], "both", select=select, window_map=window_map)
    schema = (
        "key STRUCT<k: STRING, window_start: BIGINT, window_end: BIGINT>, value STRUCT<c: BIGINT>, timestamp BIGINT, "
        "partition INT, offset BIGINT"
    )
    lefts, rights = (
        spark.createDataFrame([(("a", at, at + 10), (1,), at, 0, i) for i, at in enumerate(windows)], schema)
        for windows in ((0, 10, 20), (10, 20))
    )
    inputs = EpochInputs(
        records={"left": in_processing_order(lefts, LEFT), "right": in_processing_order(rights, RIGHT)},
        open_records=lambda side, slack: lefts.where("false"),
        earlier=lambda side: lefts.where("false"),
        table=lambda side, moment: lefts.where("false"),
        emitted=lambda slack: None,
    )
    emitted = compute(node.join_spec, inputs).rows.select("key", "value", "sequence").collect()
    folded = {
        row.key.window_start: (row.key.window_end, *row.value) for row in sorted(emitted, key=lambda r: r.sequence)
    }
    shift = window_map or 0
    left, right = {0, 10, 20}, {at - shift for at in (10, 20)}
    expected = {
        at: (at + 10, 1 if at in left else None, at + shift if at in right else None) for at in sorted(left | right)
    }
    assert folded == expected
