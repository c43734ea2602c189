"""The lookup and table joins of the reference, against what Kafka Streams answered and the laws."""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from rivermeet.joins.reference.records import Record, Row, run
from rivermeet.joins.reference.versioned import VersionedTable
from rivermeet.joins.stream_table.reference import StreamTableJoin
from rivermeet.joins.table_table.reference import TableTableJoin
from tests.reference.histories import Line, records_of
from tests.reference.recording import read
from tests.reference.tables.answers import answers
from tests.reference.tables.record import GOLDEN, TYPES, cases

Input = dict[str, Any]


@cache
def recorded() -> list[Input]:
    return read(GOLDEN)


def test_the_recorded_cases_are_those_that_are_generated() -> None:
    answered = [{k: v for k, v in case.items() if k not in ("output", "error")} for case in recorded()]
    assert answered == cases()
    assert len({case["name"] for case in answered}) == len(answered)


def test_there_are_enough_cases_of_each_join() -> None:
    counts = Counter((case["join"], case["type"], case["semantics"]) for case in recorded())
    assert min(n for (_, _, semantics), n in counts.items() if semantics == "kafka-4") >= 300
    assert min(counts.values()) >= 80


@pytest.mark.parametrize("group", sorted({case["name"].rpartition(".")[0] for case in cases()}))
def test_kafka_streams_itself_answers_the_same(group: str) -> None:
    """Rows, their order, timestamps and causes, one by one."""
    for case in (case for case in recorded() if case["name"].rpartition(".")[0] == group):
        if "error" in case:
            with pytest.raises(ValueError, match="Kafka Streams"):
                answers(case)
        else:
            expected = [[row["key"], row["value"], row["ts"], row["in"]] for row in case["output"]]
            assert answers(case) == expected, case["name"]


# --- "3.1": laws ---


def plain(family: str, how: str) -> Iterator[Input]:
    """Recorded inputs of "kafka-4", each to be put to "3.1" instead."""
    for case in recorded():
        if case["semantics"] == "kafka-4" and case["type"] == how and case["name"].startswith(f"{family}."):
            yield {k: v for k, v in case.items() if k not in ("output", "error")} | {"semantics": "3.1"}


@pytest.mark.parametrize("how", TYPES["st"])
def test_lookups_are_those_of_kafka_4_but_for_a_null_key_with_a_grace(how: str) -> None:
    for case in plain("st", how):
        case["input"] = [r for r in case["input"] if r["key"] is not None or "table_grace_ms" not in case]
        assert answers(case) == answers(case | {"semantics": "kafka-4"}), case["name"]


def test_a_null_key_with_a_grace_is_answered_at_once() -> None:
    join = StreamTableJoin("left", right_versioned_ms=10, table_grace_ms=5)
    rows = run(join, records_of([("left", "a", "A", 5), ("left", None, "N", 20), ("left", "a", "B", 10)]))
    assert [(row.key, row.value, row.timestamp, row.trigger) for row in rows] == [
        (None, ("N", None), 20, 1),
        ("a", ("A", None), 5, 2),
    ]


@pytest.mark.parametrize("how", TYPES["tt"])
def test_strict_is_kafka_4_without_the_repeated_tombstones(how: str) -> None:
    for case in plain("tt", how):
        case = {k: v for k, v in case.items() if k not in ("cache", "commit_every")}
        present: set[Any] = set()
        expected: list[list[Any]] = []
        for row in answers(case | {"semantics": "kafka-4"}):
            if row[1] is not None or row[0] in present:
                expected.append(row)
            (present.discard if row[1] is None else present.add)(row[0])
        assert answers(case) == expected, case["name"]


@pytest.mark.parametrize("how", TYPES["tt"])
def test_a_cache_tells_the_net_change_of_each_key(how: str) -> None:
    for case in plain("tt", how):
        every = case.get("commit_every", 3)
        uncached = answers({k: v for k, v in case.items() if k != "cache"})
        cached = answers(case | {"cache": True, "commit_every": every})
        table: dict[Any, Any] = {}
        expected: list[list[Any]] = []
        for commit in range(len(case["input"]) // every + 1):
            last: dict[Any, list[Any]] = {}
            for row in (row for row in uncached if row[3] // every == commit):
                last.pop(row[0], None)
                last[row[0]] = row
            expected += [row for row in last.values() if row[1] is not None or table.get(row[0]) is not None]
            table |= {row[0]: row[1] for row in last.values()}
        assert cached == expected, case["name"]


# --- Kafka's slips that the profiles of its versions keep ---


def rows_of(join: TableTableJoin, *commits: list[Line]) -> list[tuple[Any, ...]]:
    rows: list[Row] = []
    for records in commits:
        rows += [*run(join, records_of(records)), *join.commit()]
    return [(row.key, row.value, row.timestamp) for row in rows]


def test_an_inner_join_with_a_cache_misses_that_both_sides_are_gone() -> None:
    both: list[Line] = [("left", "k", "A", 1), ("right", "k", "a", 2)]
    gone: list[Line] = [("left", "k", None, 3), ("right", "k", None, 4)]
    row = ("k", ("A", "a"), 2)
    assert rows_of(TableTableJoin("inner", "kafka-4", cache=True), both, gone) == [row, row]
    assert rows_of(TableTableJoin("inner", "3.1", cache=True), both, gone) == [row, ("k", None, 3)]


def test_a_delete_at_the_timestamp_of_the_latest_value_is_forgotten() -> None:
    table = VersionedTable(100)
    lines: list[tuple[Any, int]] = [("a", 10), (None, 10), ("b", 5)]
    latest = [table.put(Record("right", "k", value, timestamp)).latest for value, timestamp in lines]
    assert latest == [True, True, True]
    found = table.as_of("k", 12)
    assert found is not None and found.value == "b"
