"""The next slice of a topic, and what keeps it from being planned. No broker is needed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rivermeet.infra.kafka.refusals import (
    EndWentBackError,
    RecordsGoneError,
    TopicRemadeError,
)
from rivermeet.infra.sources.kafka.topic import TopicState, next_slice, unreadable
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice


def state(offsets: Mapping[int, tuple[int, int, int]], id: str = "one", topic: str = "orders") -> TopicState:
    """Of each partition the low watermark, the stable end and the high watermark."""
    low, stable, high = ({p: places[i] for p, places in offsets.items()} for i in range(3))
    return TopicState(topic, id, low, stable, high)


def read(*ends: int, id: str = "one", topic: str = "orders") -> TopicSlice:
    return TopicSlice(topic=topic, id=id, ranges={p: (0, end) for p, end in enumerate(ends)})


@pytest.mark.parametrize(
    ("before", "now", "ranges", "added"),
    [
        (None, {0: (3, 5, 5)}, {0: (3, 5)}, ()),
        (read(5), {0: (3, 8, 9)}, {0: (5, 8)}, ()),
        (read(5), {0: (5, 5, 5)}, {0: (5, 5)}, ()),
        (read(5), {0: (0, 6, 6), 1: (0, 2, 2)}, {0: (5, 6), 1: (0, 2)}, (1,)),
    ],
    ids=["the first", "held back by a transaction", "nothing new", "a partition more"],
)
def test_next(
    before: TopicSlice | None,
    now: Mapping[int, tuple[int, int, int]],
    ranges: Mapping[int, tuple[int, int]],
    added: tuple[int, ...],
) -> None:
    found = next_slice(before, state(now), "shop.orders")
    assert (found.ranges, found.added, found.lost) == (ranges, added, {})
    assert found.high == {p: high for p, (_, _, high) in now.items()}
    assert found.records == sum(end - start for start, end in ranges.values())


@pytest.mark.parametrize(
    ("before", "now", "error", "says", "ranges", "lost"),
    [
        (read(5), state({0: (7, 9, 9)}), RecordsGoneError, "0: 5 to 6", {0: (7, 9)}, {0: (5, 7)}),
        (read(5), state({0: (9, 9, 9)}), RecordsGoneError, "0: 5 to 8", {0: (9, 9)}, {0: (5, 9)}),
        (read(5), state({0: (0, 3, 3)}), EndWentBackError, "0: 3 and not 5", {0: (3, 3)}, {}),
        (read(5), state({0: (2, 4, 4)}, "two"), TopicRemadeError, "deleted and recreated", {0: (2, 4)}, {0: (0, 2)}),
        (read(5, topic="old"), state({0: (0, 4, 4)}), TopicRemadeError, "are of 'old'", {0: (0, 4)}, {}),
        (read(5), state({0: (5, 5, 5), 1: (2, 4, 4)}), RecordsGoneError, "1: 0 to 1", {0: (5, 5), 1: (2, 4)},
         {1: (0, 2)}),
    ],
    ids=["retention", "all of it", "the end went back", "recreated", "another topic", "of a new partition"],
)  # fmt: skip
def test_refused_and_accepted(
    before: TopicSlice,
    now: TopicState,
    error: type[Exception],
    says: str,
    ranges: Mapping[int, tuple[int, int]],
    lost: Mapping[int, tuple[int, int]],
) -> None:
    with pytest.raises(error, match=says) as refused:
        next_slice(before, now, "shop.orders")
    assert "`rivermeet accept-loss shop orders`" in str(refused.value)
    found = next_slice(before, now, "shop.orders", accept_loss=True)
    assert (found.ranges, found.lost, found.id) == (ranges, lost, now.id)


def test_a_planned_slice_that_can_be_read_no_more() -> None:
    planned = TopicSlice(topic="orders", id="one", ranges={0: (5, 8), 1: (4, 4)})
    assert unreadable(planned, state({0: (5, 8, 8), 1: (9, 9, 9)}), "shop.orders") is None, "nothing is read of 1"
    assert isinstance(unreadable(planned, state({0: (6, 8, 8), 1: (0, 4, 4)}), "shop.orders"), RecordsGoneError)
    assert isinstance(unreadable(planned, state({0: (0, 7, 7), 1: (0, 4, 4)}), "shop.orders"), EndWentBackError)
    assert isinstance(unreadable(planned, state({0: (0, 8, 8), 1: (0, 4, 4)}, "two"), "shop.orders"), TopicRemadeError)
