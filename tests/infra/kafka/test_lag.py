"""Lag per partition, in offsets and seconds, of literal slices and topics."""

from __future__ import annotations

import pytest

from rivermeet.infra.sources.kafka.topic import TopicState, lag_of
from rivermeet.infra.sources.kafka.topic_slice import PartitionLag, TopicSlice, most

READ = TopicSlice(topic="t", id="one", ranges={0: (3, 12), 1: (0, 0)}, high={0: 13, 1: 0}, times={0: 100_000})


def topic(id: str = "one") -> TopicState:
    return TopicState("t", id, {0: 0, 1: 0}, {0: 14, 1: 0}, {0: 15, 1: 0}, {0: 105_000})


def test_behind_by_offsets_and_seconds() -> None:
    one, other = lag_of(READ, topic())
    assert one == PartitionLag(0, 12, 14, 15, 100_000, 105_000)
    assert (one.behind, one.held_back, one.seconds, one.age(160_000)) == (2, 1, 5.0, 60.0)
    assert (other.behind, other.seconds, other.age(160_000)) == (0, 0.0, None), "nothing to read, and nothing read"


def test_what_nobody_knows() -> None:
    (never, _) = lag_of(None, topic())
    assert (never.behind, never.seconds) == (14, None), "nothing was read yet"
    (anew, _) = lag_of(READ, topic("two"))
    assert (anew.consumed, anew.consumed_ms) == (0, None), "of another topic nothing was read"
    assert most([None, 1.0, 2.5]) == 2.5
    assert most([None]) is None


@pytest.mark.parametrize(("newest", "seconds"), [(99_000, 0.0), (100_000, 0.0), (101_500, 1.5)])
def test_a_clock_that_goes_back_is_no_negative_lag(newest: int, seconds: float) -> None:
    assert PartitionLag(0, 12, 14, 14, 100_000, newest).seconds == seconds


def test_what_a_plan_left() -> None:
    one, other = READ.lag()
    assert (one.behind, one.held_back, one.consumed_ms) == (0, 1, 100_000)
    assert (other.behind, other.held_back, other.consumed_ms) == (0, 0, None)
