"""table ⋈ table on a foreign key through the real epochs: printed tables, nasty script, histories, in any cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.joins.foreign_key.reference.join import ForeignKeyJoin
from rivermeet.joins.reference.records import Record
from tests.golden.load import Case, cases
from tests.joins.epochs.batch import TYPES, Batch, by_partition, run, two_tables
from tests.reference.histories import (
    NASTY_FOREIGN_KEY,
    foreign_key_of,
    random_histories,
    records_of,
)
from tests.world import World

Make = Callable[..., World]
PRINTED = cases("fk-table-table", "3.1")
BEFORE_THE_BAR = "CASE WHEN instr(v, '|') > 1 THEN substring_index(v, '|', 1) END"
"""The oracle's extractor in SQL; null where there is no bar or nothing before it."""


def set_apart(case: int, inputs: Sequence[Record]) -> list[Record]:
    """A history whose keys and foreign keys no other history has: a foreign key looks into all partitions."""

    def marked(r: Record) -> Record:
        value = r.value
        if r.side == "left" and value is not None and foreign_key_of(None, value) is not None:
            value = f"{case}:{value}"
        return replace(r, key=None if r.key is None else f"{case}:{r.key}", value=value)

    return [marked(r) for r in inputs]


def expected(how: str, batch: Batch, case: int) -> list[Any]:
    join = ForeignKeyJoin(how, foreign_key_of)
    at = batch.offsets(case)
    return [
        (row.key, row.value, row.timestamp, at[row.trigger], row.left_hash_of)
        for piece in batch.pieces(case)
        for x in piece
        for row in join.process(x)
    ]


def check(make: Make, spark: SparkSession, how: str, inputs: Sequence[Sequence[Record]], epochs: int) -> None:
    left, right = two_tables()
    verb = {"inner": left.join, "left": left.left_join}[how]
    node = verb(right, "ab", foreign_key=BEFORE_THE_BAR, select={"l": "left.v", "r": "right.v"})
    batch = Batch([set_apart(case, history) for case, history in enumerate(inputs)], epochs)
    world = make(f"{how}-{epochs}", a=TYPES, b=TYPES)
    rows = by_partition(run(world, node, batch))
    texts = {r.value for history in batch.histories for r in history if r.value is not None}
    named = spark.createDataFrame([((text,),) for text in sorted(texts)], "value STRUCT<v: STRING>")
    hashes = {h: text for text, h in named.selectExpr("value.v", "xxhash64(value)").collect()}
    table: dict[str, Any] = {}
    for case in range(len(inputs)):
        found = [
            (
                row["key"]["k"],
                row["value"] and (row["value"]["l"], row["value"]["r"]),
                row["timestamp"],
                (row["trigger"]["side"], row["trigger"]["offset"]),
                row["left_hash"] and hashes[row["left_hash"]],
            )
            for row in rows.get(case, [])
        ]
        assert found == expected(how, batch, case), (how, epochs, case)
        table |= {key: value for key, value, *_ in found}
    folded = {row["k"]: (row["l"], row["r"]) for row in world.rows(node, "table")}
    assert folded == {key: value for key, value in table.items() if value is not None}


def of_text(case: Case) -> list[Record]:
    """A printed table with its foreign keys written as the extractor reads them."""

    def text(r: Record) -> Record:
        value = r.value if r.side == "right" or r.value is None else f"{r.value}|"
        return replace(r, key=str(r.key), value=value)

    return [text(r) for r in case.records]


def test_printed_tables_say_what_the_reference_says() -> None:
    """The reference stands in for the tables below; here are the tables themselves."""
    for case in PRINTED:
        join = ForeignKeyJoin(case.how, lambda key, value: value)
        rows = [(r.position, row.key, row.value) for r in case.records for row in join.process(r)]
        assert rows == [(e.at_step, e.key, e.value) for e in case.expected], case.id


@pytest.mark.slow
@pytest.mark.parametrize("how", [pytest.param("inner", marks=pytest.mark.prove), "left"])
@pytest.mark.parametrize("epochs", [3])
def test_printed_tables_nasty_script_and_random_histories(
    world: Make, spark: SparkSession, how: str, epochs: int
) -> None:
    printed = [of_text(case) for case in PRINTED if case.how == how]
    others = random_histories(5, 30, "foreign_key")
    check(world, spark, how, [*printed, records_of(NASTY_FOREIGN_KEY), *others], epochs)
