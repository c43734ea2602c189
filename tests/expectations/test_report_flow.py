"""Flow, latency and lag of an epoch log's lines; what was not recorded is None."""

from __future__ import annotations

import pytest

from rivermeet.expectations.report.flow import flow, latency
from rivermeet.expectations.report.templates import number, short
from rivermeet.pipelines.times import moment, span
from tests.expectations.recorded import DAY, NOW, line, of_source

OLD = {"epoch": 1, "rows_in": {}, "files": 3, "rows": 7, "tombstones": 2, "ends": {"0": 6}, "seconds": {"plan": 0.5}}


def test_rows_are_matched_one_sided_or_retracted() -> None:
    (one,) = flow([line(2, tombstones=9)])
    assert (one.rows, one.given) == (1900, {"matched": 1849, "one-sided": 42, "retracted": 9})
    assert (one.taken, one.dropped) == ({"left": 2000, "right": 1800}, {"late": 6})


def test_what_an_older_line_lacks_is_not_recorded() -> None:
    (one,) = flow([OLD])
    assert (one.taken, one.given, one.dropped) == ({"files": 3}, {"rows": 5, "retracted": 2}, {})
    (times,) = latency([OLD], {}, {})
    assert (times.behind, times.waited, times.unread) == (None, None, None)
    assert times.seconds == {"plan": 0.5, "compute": None, "audit": None, "commit": None, "fold": None, "checks": None}


def test_an_epoch_is_behind_the_newest_event_and_the_delivery() -> None:
    (join,) = latency([line(3)], {3: 0.75}, {})
    assert (join.behind, join.seconds["checks"], join.waited) == (3 * 3_600_000, 0.75, None)
    (source,) = latency([of_source(3)], {}, {})
    assert (source.waited, source.unread) == (30_000, None)


def test_unread_is_what_was_there_at_the_commit() -> None:
    inputs = {"left": [of_source(1), of_source(2)], "right": [of_source(1)]}
    first, second = latency([line(1), line(2, consumed={"left": [1, 2000], "right": [1, 1200]})], {}, inputs)
    # Of each input 1,200 records had been committed; the second epoch's came a day later.
    assert (first.unread, second.unread) == (200 + 300, 400 + 0)


@pytest.mark.parametrize(
    "there",
    [
        [],
        [of_source(1) | {"incarnation": 2}],
        [of_source(1) | {"committed_at": None}],
        [of_source(1) | {"committed_at": NOW + 2 * DAY}],
        [of_source(1) | {"ends": {"0": 5}}],
    ],
    ids=["no line", "recomputed", "older line", "later", "a line is missing"],
)
def test_unread_is_unknown_where_the_log_does_not_tell(there: list) -> None:
    (one,) = latency([line(1, consumed={"left": [1, 1000]})], {}, {"left": there})
    assert one.unread is None


def test_numbers_are_written_for_readers() -> None:
    assert (number(27924), number(0.03), number(None), number(None, "unknown")) == (
        *("27,924", "0.030"),
        *("not recorded", "unknown"),
    )
    assert moment(1_357_034_100_000) == "2013-01-01 09:55 UTC"
    assert moment(10**18) == f"{10**18:,} ms"
    assert [span(n) for n in (93_784_000, 5400_000, -2000, 7, None)] == [
        "1.1 days",
        "1.5 h",
        "-2.0 s",
        "7 ms",
        "not recorded",
    ]
    assert [short(n) for n in (0, 999, 1234, 5_600_000, None)] == ["0", "999", "1k", "5M", ""]
