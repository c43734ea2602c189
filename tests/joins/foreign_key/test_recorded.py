"""Foreign-key joins of all profiles, row for row: against Kafka Streams' recorded answers and the reference.

And the equation: the folded rows are Spark SQL's join of the folded tables.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from rivermeet.assets.replay.cases import BEFORE_THE_BAR, Case, parse_case
from rivermeet.assets.replay.run import Way, at_once, replay
from rivermeet.assets.replay.run import records as frame_of
from rivermeet.joins.foreign_key.reference.join import ForeignKeyJoin
from rivermeet.joins.reference.options import NetOfCommits, VersionedSides
from rivermeet.joins.reference.records import Record
from tests.reference.foreign_key.record import HOWS, RECORDED
from tests.reference.foreign_key.test_recorded import CommittedJoin, reference_join, text
from tests.reference.histories import foreign_key_of
from tests.reference.recording import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(900)

EPOCHS = 3
SAMPLE = 20
Given = dict[str, Any]


@cache
def recorded() -> list[Given]:
    return read(RECORDED)


def options(case: Given) -> str:
    """The kind of options, which is also what runs as one join."""
    names = ("cache", "materialized", "left_versioned_ms", "right_versioned_ms")
    return " ".join(n.removesuffix("_ms") for n in names if n in case) or "plain"


KINDS = sorted({(case["semantics"], options(case)) for case in recorded()})
OPTIONS = sorted({options(case) for case in recorded()})


def cases(how: str, semantics: str, kind: str) -> list[Given]:
    return [c for c in recorded() if (c["type"], c["semantics"], options(c)) == (how, semantics, kind)]


def asked(case: Given) -> Given:
    return {k: v for k, v in case.items() if k != "output"}


def check(spark: SparkSession, given: list[Given], way: Way, expected: list[list[Given]]) -> None:
    assert given
    answers = replay(spark, [asked(case) for case in given], "3.1", way)
    for case, answer, rows in zip(given, answers, expected, strict=True):
        assert answer.get("output", answer.get("error")) == rows, case["name"]


def join_of(case: Given) -> CommittedJoin:
    """The reference of a case."""
    if case["semantics"] != "3.1":
        return reference_join(case)
    if "cache" not in case:
        # Without a cache the profiles are the same.
        return reference_join(case | {"semantics": "kafka-4"})
    net = NetOfCommits(ForeignKeyJoin(case["type"], foreign_key_of))
    return VersionedSides(net, case.get("left_versioned_ms"), case.get("right_versioned_ms"))


def by_reference(case: Given, epochs: int = 1) -> list[Given]:
    """The reference's rows, where every epoch ends with a commit of the cache."""
    join, rows, size = join_of(case), [], len(case["input"])
    every = case.get("commit_every", 1)
    for i, x in enumerate(case["input"]):
        rows += join.process(Record(x["side"], x["key"], x["value"], x["ts"], position=i))
        if i * epochs // size != (i + 1) * epochs // size or (i + 1) % every == 0:
            rows += join.commit()
    return [{"key": r.key, "value": text(r.value), "ts": r.timestamp, "in": r.trigger} for r in rows]


@pytest.mark.slow
@pytest.mark.cell(join="fk-table-table")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(("semantics", "kind"), KINDS)
def test_kafka_streams_answered_the_same(spark: SparkSession, semantics: str, kind: str, how: str) -> None:
    mine = cases(how, semantics, kind)
    check(spark, mine, at_once, [case["output"] for case in mine])


@pytest.mark.prove
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", OPTIONS)
def test_profile_3_1_is_the_reference(spark: SparkSession, kind: str, how: str) -> None:
    """What is materialized makes no difference in this profile."""
    mine = [case | {"semantics": "3.1"} for case in cases(how, "kafka-4", kind)]
    check(spark, mine, at_once, [by_reference(case) for case in mine])


@pytest.mark.parametrize("how", HOWS)
def test_the_folded_rows_are_the_batch_join_of_the_folded_tables(spark: SparkSession, how: str) -> None:
    given = [asked(case) | {"semantics": "3.1"} for case in cases(how, "kafka-4", "plain")[:60]]
    given += [case | {"cache": True, "commit_every": 4} for case in given]
    folded: dict[tuple[int, Any], Any] = {}
    for at, answer in enumerate(replay(spark, given, "3.1", at_once)):
        folded |= {(at, row["key"]): row["value"] for row in answer["output"]}
    checked_cases = [c for c in (parse_case(one, "3.1") for one in given) if isinstance(c, Case)]
    left, right = (table(spark, checked_cases, side) for side in ("left", "right"))
    pointing = left.selectExpr("c", "k AS pk", f"{BEFORE_THE_BAR} AS k", "v AS l")
    joined = pointing.join(right.withColumnRenamed("v", "r"), ["c", "k"], how)
    rows = joined.selectExpr("c", "pk", "concat(coalesce(l, 'null'), '-', coalesce(r, 'null'))").collect()
    assert {key: value for key, value in folded.items() if value is not None} == {(c, k): v for c, k, v in rows}
    assert len(rows) > len(given)


def table(spark: SparkSession, given: list[Case], side: str) -> DataFrame:
    """The last value of each key of each case, by Spark SQL."""
    from pyspark.sql import functions as F

    places = ((at, offset, r) for at, one in enumerate(given) for offset, r in enumerate(one.input))
    rows = frame_of(spark, places, side, False).where("key IS NOT NULL")
    last = rows.groupBy("key").agg(F.max_by("value", "offset").alias("value")).where("value IS NOT NULL")
    return last.select("key.c", "key.k", "value.v")
