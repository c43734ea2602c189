"""The changelog of another Rivermeet home, read as a table that is appended to: its records, in their order."""

from __future__ import annotations

import random

from rivermeet.pipelines import DeltaTable, Pipeline, Table, expr
from tests.infra.sources.delta.shed import Shed

RECORD = {
    "key": "STRUCT<id: STRING>",
    "value": "STRUCT<n: BIGINT>",
    "timestamp": "BIGINT",
    "offset": "BIGINT",
}


def theirs() -> Table:
    source = DeltaTable("orders", changes="feed", schema={"id": "STRING", "n": "BIGINT"})
    return Pipeline("there").table("orders", source, key=["id"])


def ours(path: str) -> Table:
    return Pipeline("here").table(
        "copied",
        DeltaTable(path, schema=RECORD, order=("offset",)),
        key={"id": expr("key.id", "STRING")},
        value={"n": expr("value.n", "BIGINT")},
        timestamp="timestamp",
        tombstone="value IS NULL",
    )


def test_records_of_another_changelog(shed: Shed) -> None:
    """Inserts, updates and deletes come over as records and tombstones, also after the other home's compaction."""
    draw = random.Random(7)
    first = theirs()
    path = shed.world.runner("there").paths(first).changelog
    second = ours(path)
    shed.put(*[(f"k{n}", n) for n in range(40)], fed=True)
    for _ in range(3):
        shed.run(first)
        shed.run(second)
        shed.sql(f"UPDATE {{t}} SET n = n + {draw.randint(1, 9)} WHERE n % 3 = {draw.randint(0, 2)}")
        shed.sql(f"DELETE FROM {{t}} WHERE n % 7 = {draw.randint(0, 6)}")
    shed.run(first)
    shed.run(second)
    assert shed.records(second) == shed.records(first)
    assert shed.folded(second) == shed.folded(first) == shed.there()
