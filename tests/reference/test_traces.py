"""Every record of every recorded history is in a row, or its trace says by which rule it is in none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rivermeet.joins.reference.records import RULES, Join, Record, Row
from tests.reference.foreign_key import test_recorded as foreign_key
from tests.reference.histories import records_of
from tests.reference.recording import read
from tests.reference.stream_stream import test_recorded as stream_stream
from tests.reference.tables import test_recorded as tables
from tests.reference.tables.answers import join_of

Case = dict[str, Any]
RECORDED = {
    "stream-stream": (stream_stream.RECORDED, stream_stream.reference_join),
    "tables": (tables.GOLDEN, join_of),
    "foreign-key": (foreign_key.RECORDED, foreign_key.reference_join),
}


def traced(history: Sequence[Record]) -> list[Record]:
    """The same records, each with a trace of its own."""
    return [replace(record, trace=[]) for record in history]


def run(join: Join, history: Sequence[Record], every: int) -> Iterator[Row]:
    """All rows, with a commit after so many records and at the end."""
    commit = getattr(join, "commit", list)
    for record in history:
        yield from join.process(record)
        if (record.position + 1) % every == 0:
            yield from commit()
    yield from commit()


def unexplained(join: Join, history: Sequence[Record], every: int = 1) -> list[Record]:
    """Records in no row whose trace is empty; every rule that is said is one of the list."""
    rows = [*run(join, history, every)]
    used = {place for row in rows for place in (row.trigger, row.left, row.right)}
    said = {row.rule for row in rows} | {note.rule for record in history for note in record.trace or ()}
    assert said <= set(RULES), said - set(RULES)
    return [record for record in history if record.position not in used and not record.trace]


@pytest.mark.parametrize("family", RECORDED)
def test_every_record_of_a_recorded_history_has_a_row_or_a_rule(family: str) -> None:
    path, join_of_case = RECORDED[family]
    checked = 0
    for case in read(path):
        if "error" in case:
            continue
        history = traced(records_of([(r["side"], r["key"], r["value"], r["ts"]) for r in case["input"]]))
        found = unexplained(join_of_case(case), history, case.get("commit_every", 1))
        assert not found, (case["name"], found)
        checked += 1
    assert checked > 500
