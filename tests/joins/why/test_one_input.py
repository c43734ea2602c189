"""What is said of operations on one input, of merge and of aggregates; literal records."""

from __future__ import annotations

from typing import Any

from rivermeet.joins.reference.records import Row
from rivermeet.pipelines import TimeWindows, count, expr
from tests.joins.why.given import Given, two
from tests.reference.histories import records_of


def test_a_tables_row_that_no_longer_passes() -> None:
    table, _ = two("table", "table", same_key=True)
    given = Given(table.filter("v > 'm'", "n"), records_of([("left", "k", "z", 1), ("left", "k", "a", 2)]))
    made = given.made(Row("k", None, 2, trigger=1))
    assert (made.parts["left"].value, made.says) == ({"v": "a"}, ("it does not pass `v > 'm'`",))  # type: ignore[union-attr]
    assert given.missing("k") == {"filtered"}
    assert given.missing("other") == {"no-left"}


def test_a_tombstone_and_what_is_not_read_yet() -> None:
    table, _ = two("table", "table", same_key=True)
    history = records_of([("left", "k", "z", 1), ("left", "k", None, 2), ("left", "j", "z", 3)])
    given = Given(table.map_values({"w": "v"}, "n"), history, consumed=2)
    assert given.missing("k") == {"left-deleted"}
    assert given.missing("j") == {"left-not-read"}


def test_a_streams_tombstone_ends_the_row_of_an_earlier_record() -> None:
    stream, _ = two("stream", "stream", same_key=True)
    given = Given(stream.to_table("n"), records_of([("left", "k", "z", 1), ("left", "k", None, 2)]))
    assert given.missing("k") == {"left-deleted"}


def test_a_row_of_two_streams_is_that_of_its_side() -> None:
    left, right = two("stream", "stream", same_key=True)
    given = Given(left.merge(right, "n"), records_of([("left", "k", "A", 1), ("right", "k", "a", 2)]))
    assert list(given.made(Row("k", ("a",), 2, trigger=1)).parts) == ["right"]  # type: ignore[arg-type]
    assert given.missing("j") == {"no-left", "no-right"}


def test_a_stream_under_another_key_names_the_expression() -> None:
    stream, _ = two("stream", "stream", same_key=True)
    given = Given(stream.select_key({"place": expr("v", "STRING")}, "n"), records_of([("left", "k", "Rome", 1)]))
    assert given.missing("Oslo") == {"no-left"}


def test_a_group_that_all_rows_have_left() -> None:
    table, _ = two("table", "table", same_key=True)
    node = table.group_by({"place": expr("v", "STRING")}).aggregate({"rows": count()}, "n")
    given = Given(node, records_of([("left", "k", "Rome", 1), ("left", "k", None, 2)]))
    assert given.made(Row("Rome", None, 2, trigger=1)).says == ("the last record of the group left it",)
    assert given.missing("Oslo") == {"no-group"}


def test_why_a_window_has_no_row() -> None:
    stream, _ = two("stream", "stream", same_key=True)
    node = stream.group_by_key().windowed_by(TimeWindows(10)).aggregate({"rows": count()}, "n")
    history = records_of(
        [("left", "k", "A", 5), ("left", "z", "Z", 40), ("left", "k", "B", 12), ("left", "j", "C", 41)]
    )
    given = Given(node, history, consumed=3)
    windows: dict[str, Any] = {"late": ("k", 10, 20), "outside": ("k", 30, 40), "unread": ("j", 40, 50)}
    assert {name: given.missing(*key) for name, key in windows.items()} == {
        "late": {"late"},
        "outside": {"outside"},
        "unread": {"left-not-read"},
    }
    assert given.missing("nobody", 0, 10) == {"no-left"}
