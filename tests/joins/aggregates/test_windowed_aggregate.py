"""stream → windowed table through the real epochs: the page's example, KIP-450's, late records, any cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rivermeet.pipelines import SlidingWindows, TimeWindows
from rivermeet.pipelines.operations import count
from tests.joins.one_input import AGGREGATIONS, COLUMNS, EACH, TYPES, random_histories, run, stream
from tests.reference.aggregates import SlidingWindowed, TimeWindowed, Windowed
from tests.reference.records import Record
from tests.world import World

Make = Callable[..., World]
Windows = TimeWindows | SlidingWindows

DAY = 1440
PAGE_VIEWS = [("p1", 10), ("p1", 20), ("p2", 30), ("p1", 1450)]
"""Key and minute; golden `s003.wtable.aggregate` (illustrative: the page's example in words, with numbers made up)."""
VIEWS = [("p1", 0, 1), ("p1", 0, 2), ("p2", 0, 1), ("p1", 1, 1)]
"""Page, day, views."""

WINDOWS: list[Windows] = [
    TimeWindows(10),
    TimeWindows(10, 3, 8),
    SlidingWindows(10, 8),
    SlidingWindows(0, 5),
]


def reference(windows: Windows) -> Windowed:
    if isinstance(windows, SlidingWindows):
        return SlidingWindowed(COLUMNS, windows.grace, difference=windows.difference)
    return TimeWindowed(COLUMNS, windows.grace, size=windows.size, advance=windows.advance)


def expected(windows: Windows, history: Sequence[Record]) -> tuple[list[Any], list[int]]:
    """Rows, and offsets of the late records."""
    aggregate = reference(windows)
    rows = [(row.key, row.value, row.timestamp, row.trigger) for r in history for row in aggregate.process(r)]
    return rows, [r.offset for r in aggregate.late]


def check(make: Make, windows: Windows, histories: Sequence[Sequence[Record]], epochs: int) -> None:
    node = stream().group_by_key().windowed_by(windows).aggregate(AGGREGATIONS, "windows")
    world = make(f"windowed-{epochs}", a=TYPES)
    found: dict[int, list[Any]] = {case: [] for case in range(len(histories))}
    for row in run(world, node, histories, epochs):
        assert row["offset"] == len(found[row["partition"]])
        found[row["partition"]].append(
            (
                (row["key"]["k"], row["key"]["window_start"], row["key"]["window_end"]),
                tuple(row["value"][column] for column in COLUMNS),
                row["timestamp"],
                row["trigger"]["offset"],
            )
        )
    late: dict[int, list[int]] = {case: [] for case in range(len(histories))}
    dropped = [row for row in world.rows(node, "late") if row["reason"] != "no key"]
    assert {row["key"] for row in world.rows(node, "late") if row not in dropped} <= {None}
    for row in sorted(dropped, key=lambda row: row["offset"]):
        assert row["close"] <= row["stream_time"] and "g" not in row["key"]
        late[row["partition"]].append(row["offset"])
    for case, history in enumerate(histories):
        assert (found[case], late[case]) == expected(windows, history), (windows, epochs, case)


def of_times(*times: int) -> list[Record]:
    return [Record("left", "a", ("0:x", 1, None, None), time, 0, at, at) for at, time in enumerate(times)]


def counted(windows: Windows, *times: int) -> list[tuple[int, int, int, int]]:
    """Position, start, end (excluded), count."""
    rows, _ = expected(windows, of_times(*times))
    return [(trigger, key[1], key[2], value[0]) for key, value, _, trigger in rows]


def test_hopping_windows_start_at_multiples_and_close_one_by_one() -> None:
    assert counted(TimeWindows(10, 5), 7, 12, 8, 3) == [
        (0, 0, 10, 1),
        (0, 5, 15, 1),
        (1, 5, 15, 2),
        (1, 10, 20, 1),
        (2, 5, 15, 3),
    ]


def test_sliding_windows_are_made_left_and_right_of_records() -> None:
    """KIP-450: a record out of order also makes the window right of itself."""
    assert counted(SlidingWindows(10), 20, 25, 22) == [
        (0, 10, 21, 1),
        (1, 15, 26, 2),
        (1, 21, 32, 1),
        (2, 15, 26, 3),
        (2, 21, 32, 2),
        (2, 23, 34, 1),
    ]
    # With grace the left window of the record out of order is open as well.
    assert counted(SlidingWindows(10, 5), 20, 25, 22)[3] == (2, 12, 23, 2)
    # Windows that would start before 0 are one.
    assert counted(SlidingWindows(10), 3, 5) == [(0, 0, 11, 1), (1, 0, 11, 2), (1, 4, 15, 1)]


@pytest.mark.parametrize("epochs", [1, pytest.param(EACH, marks=pytest.mark.prove)])
def test_page_views_by_day(world: Make, epochs: int) -> None:
    pipeline_stream = stream()
    node = pipeline_stream.group_by_key().windowed_by(TimeWindows(f"{DAY}m")).aggregate({"views": count()}, "views")
    minute, value = 60_000, (None, None, None, None)
    history = [Record("left", page, value, at * minute, 0, i, i) for i, (page, at) in enumerate(PAGE_VIEWS)]
    rows = run(world("page", a=TYPES), node, [history], epochs)
    days = [(r["key"]["k"], r["key"]["window_start"] // (DAY * minute), r["value"]["views"]) for r in rows]
    assert days == VIEWS
    assert [row["timestamp"] for row in rows] == [at * minute for _, at in PAGE_VIEWS]
    assert all(row["key"]["window_end"] - row["key"]["window_start"] == DAY * minute for row in rows)


@pytest.mark.prove
@pytest.mark.cell(join="windowed-aggregate")
@pytest.mark.parametrize("epochs", [3])
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_random_histories(world: Make, windows: Windows, epochs: int) -> None:
    early = random_histories(9, 20, 20, start=0)
    later = random_histories(10, 40, 30, first=20)
    check(world, windows, [*early, *later], epochs)


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("windows", [WINDOWS[1]], ids=str)
def test_the_same_with_one_record_per_epoch(world: Make, windows: Windows) -> None:
    check(world, windows, random_histories(11, 30, 12), EACH)


def test_late_record_is_kept_with_its_value(world: Make) -> None:
    node = stream().group_by_key().windowed_by(TimeWindows(10)).aggregate({"n": count()}, "windows")
    made = world("late", a=TYPES)
    run(made, node, [of_times(5, 10, 9)], 3)
    (row,) = made.rows(node, "late")
    assert (row["key"]["k"], row["timestamp"], row["stream_time"], row["close"]) == ("a", 9, 10, 10)
    assert json.loads(row["value"]) == {"g": "0:x", "n": 1}
    assert made.results[-1].sides["late"] == 1
