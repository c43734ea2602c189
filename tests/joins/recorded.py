"""Histories of joins with tables that Kafka Streams' recorded answers hold: the cases, and how they are compared."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Any

from rivermeet.assets.replay.run import Way, at_once, replay
from rivermeet.joins.table_table.reference import TableTableJoin
from tests.joins.epochs.in_steps import in_pieces as in_pieces_of
from tests.joins.epochs.in_steps import in_steps
from tests.reference.histories import records_of
from tests.reference.recording import read
from tests.reference.tables.answers import answers, join_of, text
from tests.reference.tables.record import GOLDEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCHS = 3
WAYS = {"at once": at_once, "in steps": in_steps(in_pieces_of(EPOCHS))}
Given = dict[str, Any]
Line = tuple[str, str | None, int]
"""Side, value, timestamp."""


@cache
def recorded() -> list[Given]:
    return read(GOLDEN)


def kind(case: Given) -> tuple[str, str, str]:
    return case["join"], case["type"], case["semantics"]


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


def kinds_of(join: str) -> list[tuple[str, str, str]]:
    """Join, type and profile of the recorded cases of a join."""
    return sorted({kind(case) for case in recorded() if case["join"] == join})


def types_of(join: str) -> list[tuple[str, str]]:
    """Join and type."""
    return sorted({(join, how) for join, how, _ in kinds_of(join)})


def check_recorded(spark: SparkSession, join: str, how: str, semantics: str) -> None:
    mine = [case for case in recorded() if kind(case) == (join, how, semantics)]
    check(spark, [asked(case) for case in mine], at_once, [said(case) for case in mine])


def check_reference(spark: SparkSession, join: str, how: str) -> None:
    """Profile 3.1 gives what the reference gives."""
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


def check_deletes(spark: SparkSession, join: str, way: Way) -> None:
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
