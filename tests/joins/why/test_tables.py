"""What is said of joins of tables, against the tables that the reference joins have at each row."""

from __future__ import annotations

from typing import Any

import pytest

from rivermeet.joins.foreign_key.reference.join import ForeignKeyJoin
from rivermeet.joins.one_to_many.reference import OneToManyJoin
from rivermeet.joins.reference.records import Record, Row
from rivermeet.joins.table_table.reference import TableTableJoin
from tests.joins.why.given import SELECT, Given, live, two, values
from tests.reference.histories import NASTY_FOREIGN_KEY, foreign_key_of, random_histories, records_of

HISTORIES = [
    records_of(NASTY_FOREIGN_KEY),
    *random_histories(1, 40, "foreign_key"),
    *random_histories(6, 40, "foreign_key", size=8),
]
SAME_KEY = [*random_histories(2, 40, "stream_stream")]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_row_on_a_foreign_key_is_what_it_pointed_to_then(how: str) -> None:
    left, right = two("table", "table")
    node = (
        left.join(right, "n", foreign_key="v", select=SELECT)
        if how == "inner"
        else left.left_join(right, "n", foreign_key="v", select=SELECT)
    )
    checked = 0
    for history in HISTORIES:
        join, given = ForeignKeyJoin(how, foreign_key_of), Given(node, history)
        for record in history:
            for row in join.process(record):
                made = given.made(row)
                if row.value is not None:
                    assert values(made) == row.value, (record, made)
                else:
                    # A tombstone: the reference's tables do not have both any longer.
                    assert None in values(made), (record, made)
                    assert made.says
                checked += 1
    assert checked > 300


def test_a_commits_row_names_the_last_record_of_its_partition() -> None:
    """Replayed with records of other partitions, the commit has another last record."""
    left, right = two("table", "table")
    node = left.join(right, "n", foreign_key="v", select=SELECT, semantics="kafka-4", cache="epoch")
    history = records_of([("right", "p1", "old", 1), ("left", "k", "p1|1", 2), ("right", "p1", "new", 3)])
    row = Row("k", ("p1|1", "new"), 3, trigger=1)
    assert values(Given(node, history).made(row)) == row.value
    # A row of another epoch is not that of the commit.
    assert values(Given(node, history, epochs=(1, 1, 2)).made(row)) != row.value


def test_why_no_row_is_on_a_foreign_key() -> None:
    left, right = two("table", "table")
    node = left.join(right, "n", foreign_key="v", select=SELECT)
    seen: set[str] = set()
    for history in HISTORIES:
        join = ForeignKeyJoin("inner", foreign_key_of)
        rows = [row for record in history for row in join.process(record)]
        for key in {"p1", "p2", "p10", "B", "é", "nobody"} - live(rows):
            codes = Given(node, history).missing(key) - {"pointed"}
            assert codes == {_why(join, history, key)}, (key, history)
            seen |= codes
    assert seen == {"no-left", "left-deleted", "no-foreign-key", "no-right", "right-deleted"}


def _why(join: ForeignKeyJoin, history: list[Record], key: str) -> str:
    """The reason by the reference's own tables."""
    row = join.left.get(key)
    if row is None:
        return "left-deleted" if any(r.side == "left" and r.key == key for r in history) else "no-left"
    points = foreign_key_of(row.key, row.value)
    if points is None:
        return "no-foreign-key"
    assert points not in join.right
    return "right-deleted" if any(r.side == "right" and r.key == points for r in history) else "no-right"


def test_a_move_is_named_with_both_keys() -> None:
    left, right = two("table", "table")
    node = left.join(right, "n", foreign_key="v", select=SELECT)
    history = records_of([("right", "f", "x", 1), ("left", "k", "f|1", 2), ("left", "k", "g|1", 3)])
    join, given = ForeignKeyJoin("inner", foreign_key_of), Given(node, history)
    row = [row for record in history for row in join.process(record)][-1]
    assert given.made(row).says == (
        "its foreign key moved from b=f to b=g",
        "its foreign key points to b=g: 'r' has no record of b=g",
    )
    assert given.missing("k") == {"no-right", "pointed"}


def test_what_is_not_joined_yet_is_said() -> None:
    left, right = two("table", "table")
    node = left.join(right, "n", foreign_key="v", select=SELECT)
    history = records_of([("left", "k", "f|1", 2), ("right", "f", "x", 3), ("left", "j", "f|1", 4)])
    assert Given(node, history, consumed=1).missing("k") == {"right-not-read"}
    assert Given(node, history, consumed=1).missing("j") == {"left-not-read"}


def test_a_row_of_one_to_many_is_its_two_records() -> None:
    left, right = two("table", "table")
    node = left.one_to_many_join(right, "n", foreign_key="v", select=SELECT)
    swap = {"left": "right", "right": "left"}
    checked = 0
    for history in HISTORIES:
        # The side that refers is the right one here.
        turned = records_of([(swap[r.side], r.key, r.value, r.timestamp) for r in history])
        join, given = OneToManyJoin(foreign_key_of), Given(node, turned)
        rows = [(row, given.made(row)) for record in turned for row in join.process(record)]
        for row, made in rows:
            if row.value is not None:
                assert values(made) == row.value
            else:
                assert None in values(made) and made.says
            checked += 1
        gone = {row.key for row, _ in rows} - live([row for row, _ in rows])
        for one, many in gone:
            assert given.missing(one, many) == _gone(join, one, many)
    assert checked > 200


def _gone(join: OneToManyJoin, one: str, many: str) -> set[str]:
    codes: set[str] = set()
    row = join.right.get(many)
    if row is None:
        codes.add("right-deleted")
    elif foreign_key_of(None, row.value) != one:
        codes.add("no-reference")
    return codes if one in join.left else {*codes, "left-deleted"}


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@pytest.mark.parametrize("semantics", ["3.1", "kafka-4"])
def test_a_row_on_the_key_is_what_both_sides_have(how: str, semantics: Any) -> None:
    left, right = two("table", "table", same_key=True)
    verb = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[how]
    node = verb(right, "n", semantics=semantics, select=SELECT)
    seen: set[str] = set()
    for history in SAME_KEY:
        join, given = TableTableJoin(how, semantics), Given(node, history)
        rows = [(row, given.made(row)) for record in history for row in join.process(record)]
        for row, made in rows:
            if row.value is not None:
                assert values(made) == row.value
            else:
                assert None in values(made)
        for key in {"a", "b", "c", "nobody"} - live([row for row, _ in rows]):
            codes = given.missing(key)
            assert codes == _absent_sides(join, history, key, how)
            seen |= codes
    assert {"no-left", "left-deleted"} <= seen


def _absent_sides(join: TableTableJoin, history: list[Record], key: str, how: str) -> set[str]:
    codes: set[str] = set()
    for side in ("left", "right") if how != "left" else ("left",):
        if join.sides[side].get(key) is None:
            came = any(r.side == side and r.key == key for r in history)
            codes.add(f"{side}-deleted" if came else f"no-{side}")
    return codes
