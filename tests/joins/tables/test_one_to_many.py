"""The one-to-many join through replay: the documents' steps, random histories, epochs, caches, and Spark SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rivermeet.assets.replay.epochs import in_epochs
from rivermeet.assets.replay.run import Way, at_once, replay
from tests.golden.load import tables
from tests.joins.epochs.in_steps import in_pieces, in_steps
from tests.reference.foreign_key.one_to_many import OneToManyJoin
from tests.reference.histories import foreign_key_of, random_histories
from tests.reference.records import Record
from tests.reference.tables.options import NetOfCommits, VersionedSides

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

GOLDEN = tables()
TRACES = [table for table in GOLDEN if table["join"] == "one-to-many"]
EPOCHS = 3
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "cache": {"cache": True, "commit_every": 4},
    "versioned": {"left_versioned_ms": 3, "right_versioned_ms": 10},
}
WAYS = [
    pytest.param(at_once, id="at once"),
    pytest.param(in_steps(in_pieces(EPOCHS)), id="in steps"),
    pytest.param(in_epochs(EPOCHS), id="in real epochs", marks=pytest.mark.prove),
]
Given = dict[str, Any]


def case(records: list[Record], **given: Any) -> Given:
    lines = [{"side": r.side, "key": r.key, "value": r.value, "ts": r.timestamp} for r in records]
    return {"join": "one-to-many", "type": "inner", "input": lines, **given}


def histories(seed: int, n: int) -> list[list[Record]]:
    """Foreign-key histories with their sides exchanged: the right value refers to the left key."""
    sides = {"left": "right", "right": "left"}
    return [
        [Record(sides[r.side], r.key, r.value, r.timestamp, position=r.position) for r in history]
        for history in random_histories(seed, n, "foreign_key")
    ]


def by_reference(given: Given, epochs: int = 1) -> list[Given]:
    plain: Any = OneToManyJoin(foreign_key_of)
    net = NetOfCommits(plain) if given.get("cache") else plain
    join = VersionedSides(net, given.get("left_versioned_ms"), given.get("right_versioned_ms"))
    rows, size, every = [], len(given["input"]), given.get("commit_every", 1)
    for i, x in enumerate(given["input"]):
        rows += join.process(Record(x["side"], x["key"], x["value"], x["ts"], position=i))
        if i * epochs // size != (i + 1) * epochs // size or (i + 1) % every == 0:
            rows += join.commit()
    return [
        {"key": "".join(r.key), "value": r.value and "-".join(r.value), "ts": r.timestamp, "in": r.trigger}
        for r in rows
    ]


@pytest.mark.parametrize("way", WAYS)
def test_the_documents_steps(spark: SparkSession, way: Way) -> None:
    """The documents write a reference as the first word of the value: "[A0,B3 ...]"; replay as "A0|…"."""

    def written(side: str, value: str | None) -> str | None:
        if side == "left" or value is None:
            return value
        head = value[1:].split(",")[0]
        return f"{'' if head == 'null' else head}|{value}"

    given = [
        case([Record(r["side"], r["key"], written(r["side"], r["value"]), r["step"]) for r in t["inputs"]])
        for t in TRACES
    ]
    for table, answer in zip(TRACES, replay(spark, given, "3.1", way), strict=True):
        expected = [
            (e["at_step"], e["key"], e["value"] and f"{e['value']['left']}-{written('right', e['value']['right'])}")
            for e in table["expected"]
        ]
        steps = [r["step"] for r in table["inputs"]]
        assert [(steps[r["in"]], r["key"], r["value"]) for r in answer["output"]] == expected, table["id"]


@pytest.mark.slow
@pytest.mark.cell(join="one-to-many", how="inner")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", OPTIONS)
def test_random_histories_are_the_references(spark: SparkSession, kind: str, way: Way) -> None:
    count = 200 if way is at_once else 20
    given = [case(history, **OPTIONS[kind]) for history in histories(7, count)]
    epochs = 1 if way is at_once else EPOCHS
    for at, (one, answer) in enumerate(zip(given, replay(spark, given, "3.1", way), strict=True)):
        assert answer.get("output", answer.get("error")) == by_reference(one, epochs), at


def test_the_folded_rows_are_the_batch_join_of_the_folded_tables(spark: SparkSession) -> None:
    inputs = histories(8, 60)
    given = [case(history) for history in inputs]
    folded: dict[tuple[int, Any], Any] = {}
    for at, answer in enumerate(replay(spark, given, "3.1", at_once)):
        folded |= {(at, row["key"]): row["value"] for row in answer["output"]}
    lines = [(at, r.side, r.key, r.value, i) for at, h in enumerate(inputs) for i, r in enumerate(h) if r.key]
    records = spark.createDataFrame(lines, "c INT, side STRING, k STRING, v STRING, i INT")
    last = records.groupBy("side", "c", "k").agg({"i": "max"}).withColumnRenamed("max(i)", "i")
    tables = records.join(last, ["side", "c", "k", "i"]).where("v IS NOT NULL")
    one, many = tables.where("side = 'left'").alias("a"), tables.where("side = 'right'").alias("b")
    refers = "a.c = b.c AND instr(b.v, '|') > 1 AND substring_index(b.v, '|', 1) = a.k"
    from pyspark.sql import functions as F

    rows = one.join(many, F.expr(refers)).selectExpr("a.c", "concat(a.k, b.k)", "concat(a.v, '-', b.v)").collect()
    assert {key: value for key, value in folded.items() if value is not None} == {(c, k): v for c, k, v in rows}
    assert len(rows) > len(given)
