"""Every history that Kafka Streams answered, and every printed one: what `why` names is what the reference used.

The reference sees the whole history, `why` the records of one key. And each record that is in no row has a rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rivermeet.assets.replay.by_reference import record_of
from rivermeet.assets.replay.cases import Case, declare
from rivermeet.joins.reference.records import RULES, Join, Record, Row, Value, reference_module
from rivermeet.joins.why.evidence import Found, Made
from rivermeet.joins.why.families import NOT_SURE
from rivermeet.pipelines import Node, SlidingWindows, TimeWindows, count, expr
from tests.golden.test_printed import TABLES
from tests.joins.why.given import SELECT, Given, two
from tests.reference.histories import foreign_key_of, random_histories
from tests.reference.recording import read

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = ("stream_stream", "tables", "foreign_key")


@dataclass
class Ran:
    """A history that the reference has seen whole, and its rows."""

    node: Node
    history: Sequence[Record]
    epochs: Sequence[int]
    rows: Sequence[Row]

    def without_rule(self) -> list[Record]:
        """Records in no row, without a reason."""
        used = {at for row in self.rows for at in (row.trigger, row.left, row.right)}
        said = {row.rule for row in self.rows} | {note.rule for record in self.history for note in record.trace or ()}
        assert said <= set(RULES), said - set(RULES)
        return [record for record in self.history if record.position not in used and not record.trace]


class OfCase(Given):
    """Records of a case, whose expressions have been evaluated."""

    def evaluate(self, side: str, asked: Mapping[str, Any], records: Sequence[Found]) -> list[dict[str, Any]]:
        found = {(record.side, record.offset): record.found for record in self.history}
        return [dict(found[side, one.offset]) for one in records]


def ran(node: Node, join: Join, history: Sequence[Record], every: int = 1) -> Ran:
    """Put a history through a reference, with a commit after so many records."""
    traced = [replace(record, trace=[]) for record in history]
    rows: list[Row] = []
    commit = getattr(join, "commit", list)
    for record in traced:
        rows += join.process(record)
        if (record.position + 1) % every == 0:
            rows += commit()
    return Ran(node, traced, [record.position // every for record in traced], [*rows, *commit()])


def of_case(given: Mapping[str, Any]) -> Ran:
    """A case, with a select of columns, so that a row's value is compared with its records."""
    case = Case.model_validate({name: x for name, x in given.items() if name not in ("output", "error")})
    node, offsets = declare(case, 1), Counter[str]()
    operation = replace(node.operation, select=SELECT)  # type: ignore[type-var]
    node = replace(node, origin=operation)  # type: ignore[call-arg]
    reference, history = reference_module(operation), []
    for position, one in enumerate(case.input):
        record = record_of(one, position, reference.asks(operation))
        history.append(replace(record, offset=offsets[record.side]))
        offsets[record.side] += 1
    return ran(node, reference.reference_of(operation), history, case.commit_every)


@cache
def recorded(file: str) -> list[Mapping[str, Any]]:
    """What Kafka Streams did not die of."""
    return [case for case in read(GOLDEN / f"oracle_{file}.jsonl.gz") if "error" not in case]


def printed() -> Iterator[Mapping[str, Any]]:
    """The documents' tables."""
    for tables in TABLES.values():
        for table in tables:
            yield from (table.case(how, profile) for how in table.types for profile in table.profiles)


def places(made: Made) -> tuple[int | None, ...]:
    """Positions of the records that are named."""
    return tuple(None if one is None or one.order is None else int(one.order[-1]) for one in made.parts.values())


def assert_named(given: Mapping[str, Any]) -> int:
    """Each row of a case is said to be of the records that it is of; how many there are."""
    found = of_case(given)
    evidence = OfCase(found.node, found.history, epochs=found.epochs)
    for row in found.rows:
        # A cache may commit two rows that nothing distinguishes.
        alike = {(other.left, other.right) for other in found.rows if as_committed(other) == as_committed(row)}
        made = evidence.made(row)
        assert places(made) in alike, (given["name"], row, made)
        assert NOT_SURE not in made.says, (given["name"], row)
    return len(found.rows)


def as_committed(row: Row) -> tuple[Any, ...]:
    return row.key, row.timestamp, row.trigger, row.value


@pytest.mark.parametrize("file", FILES)
def test_what_is_named_is_what_the_reference_used(file: str) -> None:
    assert sum(assert_named(case) for case in recorded(file)[::40]) > 300


@pytest.mark.parametrize("name", ["st.kafka-4.left.grace.0055", "st.kafka-4.left.grace.0105"])
def test_a_row_that_waited_while_records_without_value_went_by(name: str) -> None:
    """With clocks they release it too early, and without them a record of the table is not expired."""
    (case,) = (case for case in recorded("tables") if case["name"] == name)
    assert_named(case)


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("file", FILES)
def test_it_is_of_every_recorded_history(file: str) -> None:
    assert sum(assert_named(case) for case in recorded(file)) > 10_000


def test_it_is_of_every_printed_table() -> None:
    assert sum(assert_named(case) for case in printed()) > 300


@pytest.mark.parametrize("file", FILES)
def test_each_record_of_a_recorded_history_has_a_row_or_a_rule(file: str) -> None:
    for case in recorded(file):
        assert not of_case(case).without_rule(), case["name"]


def test_each_record_of_a_printed_table_has_a_row_or_a_rule() -> None:
    for case in printed():
        assert not of_case(case).without_rule(), case["name"]


def one_input() -> Mapping[str, Callable[[Any, Any], Node]]:
    """Operations on one input, and merge, of a table and a stream."""
    group, passes = {"place": expr("v", "STRING")}, "v > 'm'"
    return {
        "filter": lambda table, stream: stream.filter(passes, "n"),
        "filter of a table": lambda table, stream: table.filter(passes, "n"),
        "map": lambda table, stream: table.map_values({"w": "v"}, "n"),
        "key": lambda table, stream: stream.select_key(group, "n"),
        "to table": lambda table, stream: stream.to_table("n"),
        "to stream": lambda table, stream: table.to_stream("n"),
        "groups": lambda table, stream: table.group_by(group).aggregate({"rows": count()}, "n"),
        "windows": lambda table, stream: (
            stream.group_by_key().windowed_by(TimeWindows(10, advance=4, grace=2)).aggregate({"rows": count()}, "n")
        ),
        "sliding": lambda table, stream: (
            stream.group_by_key().windowed_by(SlidingWindows(10, grace=2)).aggregate({"rows": count()}, "n")
        ),
    }


@pytest.mark.parametrize("operation", one_input())
def test_each_record_of_one_input_has_a_row_or_a_rule(operation: str) -> None:
    table, stream = two("table", "stream")
    node = one_input()[operation](table, stream)
    assert node.operation is not None
    reference, rows = reference_module(node.operation), 0
    names = reference.asks(node.operation).get("left", {})
    for history in random_histories(7, 40, "foreign_key"):
        lefts = [record for record in history if record.side == "left"]
        evaluated = [
            replace(x, position=at, found=dict.fromkeys(names, x.value and (foreign_key_of(None, x.value) or True)))
            for at, x in enumerate(lefts)
        ]
        found = ran(node, reference.reference_of(node.operation), [in_columns(x) for x in evaluated])
        assert not found.without_rule()
        rows += len(found.rows)
    assert rows > 50


def in_columns(x: Record) -> Record:
    key = None if x.key is None else (x.key,)
    return replace(x, key=key, value=None if x.value is None else Value({"v": x.value}, found=x.found))
