"""The events are those of NEXMark's definition, and known."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.nexmark.events import PLACES, START, Pace, events

ALL = list(PLACES)
KNOWN = {"persons": 3078130016, "auctions": 1625382874, "bids": 3191654681}


def of_kind(found: pa.Table, kind: str) -> dict[str, Any]:
    """Columns of one kind's events that have no nulls, in order of event time."""
    side = np.flatnonzero(found["side"].to_numpy() == ALL.index(kind))
    rows = found.take(pa.array(side)).sort_by([("ts", "ascending"), ("seq", "ascending")])
    return {name: rows[name].to_numpy() for name in rows.column_names if not rows[name].null_count}


def test_a_cycle_has_one_person_three_auctions_and_46_bids() -> None:
    found = events(ALL, 50_000, pace=Pace(held=0))
    assert (found["seq"].to_numpy() == np.arange(50_000)).all()
    assert (found["side"].to_numpy()[100:150] == [0, 1, 1, 1, *[2] * 46]).all()
    assert (found["ts"].to_numpy() == START + np.arange(50_000) // 10).all()
    people, auctions = of_kind(found, "persons"), of_kind(found, "auctions")
    assert (people["id"] == 1000 + np.arange(1_000)).all()
    assert (auctions["id"] == 1000 + np.arange(3_000)).all()
    assert set(auctions["category"]) == {10, 11, 12, 13, 14}
    assert set(people["state"]) == {"AZ", "CA", "ID", "OR", "WA", "WY"}
    assert (auctions["reserve"] > auctions["initial_bid"]).all() and (auctions["expires"] > auctions["ts"]).all()
    assert all(len(columns) == count for columns, count in ((people, 9), (auctions, 11), (of_kind(found, "bids"), 8)))


def test_hot_ones_are_those_of_the_newest_hundred() -> None:
    found = events(ALL, 100_000, pace=Pace(held=0))
    auctions, bids = of_kind(found, "auctions"), of_kind(found, "bids")
    newest = 1000 + (auctions["id"] - 1000) // 3
    hot = auctions["seller"] == newest // 100 * 100
    assert hot.mean() == pytest.approx(3 / 4, abs=0.02)
    assert (newest[~hot] - auctions["seller"][~hot]).min() == -10
    assert 990 < (newest[~hot] - auctions["seller"][~hot]).max() <= 999
    cycle = np.arange(100_000)[np.arange(100_000) % 50 >= 4] // 50
    newest = 1000 + cycle * 3 + 2
    hot = bids["auction"] == newest // 100 * 100
    assert hot.mean() == pytest.approx(1 / 2, abs=0.02)
    assert (newest[~hot] - bids["auction"][~hot]).min() == -10
    assert (newest[~hot] - bids["auction"][~hot]).max() == 100
    assert (bids["bidder"] == (1000 + cycle) // 100 * 100 + 1).mean() == pytest.approx(3 / 4, abs=0.02)


def test_events_arrive_late_and_shuffled_no_further_than_said() -> None:
    times = events(ALL, 50_000)["ts"].to_numpy()
    late = np.maximum.accumulate(times) - times
    assert 2_900 < late.max() <= 3_000
    times = events(ALL, 50_000, pace=Pace(held=0, group=1_000))["ts"].to_numpy()
    assert sorted(times) == sorted(START + np.arange(50_000) // 10)
    assert (times.reshape(-1, 1_000) // 100 == times[::1_000, None] // 100).all() and times[0] < times[1] > times[3]


@pytest.mark.parametrize("kind", ALL)
def test_the_events_are_known(kind: str) -> None:
    rows = events([kind], 1_000).to_pylist()
    assert zlib.crc32(repr(rows).encode()) == KNOWN[kind]
