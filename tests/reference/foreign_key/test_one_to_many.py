"""The one-to-many join against the documents' tables, and against SQL's answer after each record."""

from typing import Any

import pytest
from hypothesis import given

from rivermeet.joins.one_to_many.reference import OneToManyJoin
from rivermeet.joins.reference.records import Record, Row, run
from tests.golden.load import tables
from tests.reference.histories import foreign_key_of, histories

TRACES = [table for table in tables() if table["join"] == "one-to-many"]


def reference_of(_key: Any, value: str) -> str | None:
    """The documents write a right value as "[A0,B3 ...]"."""
    head = value[1:].split(",")[0]
    return None if head == "null" else head


@pytest.mark.parametrize("table", TRACES, ids=lambda table: table["id"])
def test_the_documents_steps(table: dict[str, Any]) -> None:
    records = [Record(r["side"], r["key"], r["value"], r["step"], position=r["step"]) for r in table["inputs"]]
    rows = run(OneToManyJoin(reference_of), records)
    emitted = [(row.trigger, "".join(row.key), row.value) for row in rows]
    assert emitted == [
        (e["at_step"], e["key"], e["value"] and (e["value"]["left"], e["value"]["right"])) for e in table["expected"]
    ]


def mirrored(h: list[Record]) -> list[Record]:
    """A foreign-key history with its sides exchanged: the right value refers to the left key."""
    sides = {"left": "right", "right": "left"}
    return [Record(sides[r.side], r.key, r.value, r.timestamp, position=r.position) for r in h]


@given(h=histories("foreign_key").map(mirrored))
def test_every_prefix_folds_to_the_batch_join_and_no_tombstone_is_idle(h: list[Record]) -> None:
    join = OneToManyJoin(foreign_key_of)
    live: dict[Any, Any] = {}
    for record in h:
        for row in join.process(record):
            assert row.value is not None or row.key in live
            live[row.key] = row.value
            if row.value is None:
                del live[row.key]
        assert live == {
            (a.key, b.key): (a.value, b.value)
            for b in join.right.values()
            for a in join.left.values()
            if foreign_key_of(b.key, b.value) == a.key
        }


def test_rows_their_order_and_timestamps() -> None:
    lines = [
        ("right", "b2", "a|1", 1),
        ("right", "b10", "a|1", 2),
        ("left", "a", "A", 1),  # fan-out by the bytes of the right key, with the left timestamp
        ("left", "c", "C", 9),
        ("right", "b2", "c|1", 3),
        ("right", "b2", "|1", 4),  # the row under the old key ends, as late as the row of C
        ("right", "b2", "|2", 5),
        ("left", "a", None, 0),
        ("left", "a", None, 7),
    ]
    records = [Record(*line, position=i) for i, line in enumerate(lines)]
    rows = run(OneToManyJoin(foreign_key_of), records)
    assert rows == [
        Row(("a", "b10"), ("A", "a|1"), 1, 2, 2, 1),
        Row(("a", "b2"), ("A", "a|1"), 1, 2, 2, 0),
        Row(("a", "b2"), None, 3, 4, None, 4),
        Row(("c", "b2"), ("C", "c|1"), 9, 4, 3, 4),
        Row(("c", "b2"), None, 9, 5, None, 5),
        Row(("a", "b10"), None, 0, 7, 7, 1),
    ]
