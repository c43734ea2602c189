"""Look-ups and joins of tables, row for row: against Kafka Streams' recorded answers, the reference, and Spark SQL."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from rivermeet.assets.replay.cases import KEY, Case, parse_case
from rivermeet.assets.replay.run import Way, at_once, replay
from rivermeet.assets.replay.run import records as frame_of
from rivermeet.joins.operator import EpochInputs, compute
from rivermeet.joins.order import LEFT, RIGHT, in_processing_order
from rivermeet.joins.table_table.reference import TableTableJoin
from rivermeet.pipelines import Files, Pipeline, TimeWindows, count
from tests.joins.epochs.in_steps import in_pieces as in_pieces_of
from tests.joins.epochs.in_steps import in_steps
from tests.reference.histories import records_of
from tests.reference.recording import read
from tests.reference.tables.answers import answers, join_of, text
from tests.reference.tables.record import GOLDEN, TYPES, case

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(900)

EPOCHS = 3
SAMPLE = 20
Given = dict[str, Any]
Line = tuple[str, str | None, int]
"""Side, value, timestamp."""


@cache
def recorded() -> list[Given]:
    return read(GOLDEN)


def kind(case: Given) -> tuple[str, str, str]:
    return case["join"], case["type"], case["semantics"]


KINDS = sorted({kind(case) for case in recorded()})
FAMILIES = sorted({(join, how) for join, how, _ in KINDS})


def asked(case: Given) -> Given:
    return {k: v for k, v in case.items() if k not in ("output", "error")}


def check(spark: SparkSession, cases: list[Given], way: Way, expected: list[Any]) -> None:
    """``expected`` has [key, value, timestamp, in] of each row in order, or None where the case is refused."""
    assert cases
    for one, answer, rows in zip(cases, replay(spark, cases, "3.1", way), expected, strict=True):
        found = (
            [[row["key"], row["value"], row["ts"], row["in"]] for row in answer["output"]] if rows is not None else None
        )
        assert found == rows, one["name"]
        assert ("error" in answer) == (rows is None), (one["name"], answer)


def said(case: Given) -> list[Any] | None:
    if "error" in case:
        return None
    return [[row["key"], row["value"], row["ts"], row["in"]] for row in case["output"]]


@pytest.mark.cell
@pytest.mark.slow
@pytest.mark.parametrize(("join", "how", "semantics"), KINDS)
def test_kafka_streams_answered_the_same(spark: SparkSession, join: str, how: str, semantics: str) -> None:
    mine = [case for case in recorded() if kind(case) == (join, how, semantics)]
    check(spark, [asked(case) for case in mine], at_once, [said(case) for case in mine])


@pytest.mark.cell
@pytest.mark.prove
@pytest.mark.parametrize(("join", "how"), FAMILIES)
def test_profile_3_1_is_the_reference(spark: SparkSession, join: str, how: str) -> None:
    mine = [asked(case) | {"semantics": "3.1"} for case in recorded() if kind(case) == (join, how, "kafka-4")]
    check(spark, mine, at_once, [answers(case) for case in mine])


def in_pieces(case: Given) -> list[Any] | None:
    """The reference's rows where every epoch ends with a commit of the cache."""
    if "cache" not in case:
        return said(case) if "output" in case or "error" in case else answers(case)
    join = join_of(case)
    assert isinstance(join, TableTableJoin)
    records = records_of([(r["side"], r["key"], r["value"], r["ts"]) for r in case["input"]])
    rows = []
    for x in records:
        rows += join.process(x)
        epoch, following = ((x.position + i) * EPOCHS // len(records) for i in (0, 1))
        if epoch != following or (x.position + 1) % case["commit_every"] == 0:
            rows += join.commit()
    return [[row.key, text(row.value), row.timestamp, row.trigger] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("way", [at_once, in_steps(in_pieces_of(EPOCHS))], ids=["at once", "in steps"])
@pytest.mark.parametrize("join", ["stream-table", "table-table"])
def test_deletes_that_leave_no_trace(spark: SparkSession, join: str, way: Way) -> None:
    """Deletes at the very timestamp of a value that stands above nothing, over and over; half of the cases show it."""
    rng = random.Random(5)
    cases: list[Given] = []
    for i in range(60):
        options = {"type": "left", "right_versioned_ms": rng.choice((2, 5, 1000))}
        lines = [{"side": s, "key": "k", "value": v, "ts": ts} for s, v, ts in slipping(rng)]
        cases.append({"name": i, "join": join, "semantics": "3.1", "input": lines} | options)
    check(spark, cases, way, [answers(one) for one in cases])


def slipping(rng: random.Random) -> list[Line]:
    """A delete, a value above it, its delete, a value between the two, and changes of the left side that ask for it."""
    lines: list[Line] = []
    clock = 0
    while len(lines) < 30:
        clock += rng.randint(1, 4)
        top = clock + rng.randint(1, 3)
        round_ = [("right", None, clock), ("right", "A", top), ("right", None, top)]
        round_ += [("right", rng.choice("BC"), clock + rng.randint(0, 3))]
        round_ += [("left", rng.choice((None, "L", "M")), clock + rng.randint(0, 5)) for _ in range(3)]
        kept = [line for line in round_ if rng.random() < 0.85]
        if rng.random() < 0.2:
            rng.shuffle(kept)
        lines += kept
    return lines


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
