"""Replay by the reference joins alone: no engine, no Java; a hundred records in less than a second.

A case's records go one by one, as they are listed, through the reference of the join that the case declares. Held by
``tests/assets/replay/test_by_reference.py``, against the operators' answers and the recorded ones of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rivermeet.assets.replay.cases import BEFORE_THE_BAR, KEY, Case, Input, declare, sort_out
from rivermeet.joins.reference.records import Asks, Record, Row, Value, reference_module
from rivermeet.pipelines.expressions import quote


def by_reference(given: Sequence[Any], semantics: str) -> list[dict[str, Any]]:
    """A result for each case, as `assets.replay.run.replay` gives it."""
    results, runnable = sort_out(given, semantics)
    for at, case in runnable:
        results[at]["output"] = [_answer(row) for row in _rows(case)]
    return results


def _rows(case: Case) -> Iterator[Row]:
    operation = declare(case, 1).operation
    assert operation is not None
    reference = reference_module(operation)
    join, asks = reference.reference_of(operation), reference.asks(operation)
    commit = getattr(join, "commit", list)
    for position, given in enumerate(case.input):
        yield from join.process(record_of(given, position, asks))
        if (position + 1) % case.commit_every == 0:
            yield from commit()
    yield from commit()


def record_of(given: Input, position: int, asks: Asks) -> Record:
    """The record with its columns as cases are declared: a key is its case, here 0, and its text."""
    head, bar, _ = (given.value or "").partition("|")
    cells = {"case": 0, "c": 0, "k": given.key, BEFORE_THE_BAR: head if bar and head else None}
    cells |= {quote(column): cells[column] for column in KEY}
    found = {name: cells[sql] for name, sql in asks.get(given.side, {}).items()}
    value = None if given.value is None else Value({"v": given.value}, found=found)
    key = None if given.key is None else (0, given.key)
    return Record(given.side, key, value, given.ts, position=position, found=found)


def _answer(row: Row) -> dict[str, Any]:
    return {
        "key": row.key and "".join(row.key[1::2]),
        "value": row.value and "-".join("null" if side is None else side.columns["v"] for side in row.value),
        "ts": row.timestamp,
        "in": row.trigger,
    }
