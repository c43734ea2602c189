"""What is said of joins of streams, against what the reference join has paired, dropped and waits for."""

from __future__ import annotations

from typing import Any

import pytest

from rivermeet.joins.reference.records import run
from rivermeet.joins.stream_stream.reference.profile_3_1 import StreamStreamJoin
from rivermeet.joins.stream_stream.why import beyond
from rivermeet.pipelines import JoinWindow
from tests.joins.why.given import SELECT, Given, two
from tests.reference.histories import NASTY_STREAM_STREAM, random_histories, records_of, still_waiting

HISTORIES = [records_of(NASTY_STREAM_STREAM), *random_histories(5, 60)]


def joined(how: str, history: Any, before: int = 10, after: int = 10, grace: int = 5) -> tuple[Given, Any, Any]:
    left, right = two("stream", "stream", same_key=True)
    verb = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[how]
    node = verb(right, "n", window=JoinWindow(before, after, grace), select=SELECT)
    join = StreamStreamJoin(how, before, after, grace)
    return Given(node, history), join, run(join, history)


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_a_row_is_its_two_records(how: str) -> None:
    alone = 0
    for history in HISTORIES:
        given, _, rows = joined(how, history)
        for row in rows:
            made = given.made(row)
            found = [made.parts[side] for side in ("left", "right")]
            assert [None if one is None else int(one.order[-1]) for one in found] == [row.left, row.right]  # type: ignore
            assert bool(made.says) == (None in (row.left, row.right))
            alone += None in (row.left, row.right)
    assert how == "inner" or alone > 100


def test_a_row_without_a_partner_says_what_the_other_side_has() -> None:
    seen: set[str] = set()
    for history in HISTORIES:
        given, join, rows = joined("left", history)
        dropped = {late.position for late in join.late}
        for row in rows:
            if row.right is not None or row.key is None:
                continue
            says = " ".join(given.made(row).says)
            one = given.found(history[row.left])
            others = [r for r in history if r.side == "right" and r.key == row.key and r.value is not None]
            within = [r for r in others if beyond(given.operation, one, given.found(r)) == 0]  # type: ignore[arg-type]
            if not others:
                expected = "has no record of"
            elif not within:
                expected = "beyond the window"
            elif any(r.position in dropped for r in within):
                expected = "had closed (late table)"
            else:
                expected = "one of the two windows was closed"
            assert expected in says, (row, says)
            seen.add(expected)
    assert seen == {
        "has no record of",
        "beyond the window",
        "had closed (late table)",
        "one of the two windows was closed",
    }


def test_why_a_key_is_in_no_row() -> None:
    lines = [
        ("left", "far", "A", 0),
        ("right", "far", "a", 11),
        ("left", "alone", "B", 11),
        ("right", "null", None, 11),
        ("left", "null", "C", 11),
        ("right", "late", "d", 40),
        ("left", "time", "T", 60),
        ("left", "late", "D", 44),
    ]
    history = records_of([*lines, ("left", "unread", "E", 60)])
    given, _, rows = joined("inner", history[:-1])
    assert not rows
    given.history, given.consumed = history, 8
    assert {key: given.missing(key) for key in ("far", "alone", "null", "late", "unread", "nobody")} == {
        "far": {"outside"},
        "alone": {"no-right"},
        "null": {"no-right", "null-value"},
        "late": {"late"},
        "unread": {"no-right", "left-not-read"},
        "nobody": {"no-left", "no-right"},
    }


def test_what_waits_is_what_waits_in_the_reference() -> None:
    waited = 0
    for history in HISTORIES:
        given, join, rows = joined("outer", history)
        waiting = {record.key for record in still_waiting(join)}
        for key in {r.key for r in history} - {row.key for row in rows} - {None}:
            assert ("waiting" in given.missing(key)) == (key in waiting)
            waited += key in waiting
    assert waited
