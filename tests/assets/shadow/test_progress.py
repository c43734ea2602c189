"""How far an application has read of our inputs, and where our records lie in their topics."""

from __future__ import annotations

import pytest

from rivermeet.assets.shadow.positions import Piece, TopicInput
from rivermeet.infra.settings import Settings
from rivermeet.infra.shadow.application import GroupMissingError, Progress, progress
from rivermeet.pipelines import Shadow
from tests.assets.shadow.shop import Shop, found
from tests.assets.shadow.test_tables import RIGHT, SENT, named
from tests.infra.sources.kafka.town import Town

WHOLE = Piece(partition=0, start=0, end=50, first=0, last=49)
GAPS = Piece(partition=0, start=50, end=61, first=50, last=58)
ORDERS = TopicInput("left", "orders", {0: 61, 1: 7}, (GAPS, WHOLE, Piece(1, 0, 7, 0, 6)))


def read(upto: dict[int, int]) -> Progress:
    return Progress("app", {"orders": upto})


@pytest.mark.parametrize(
    ("upto", "known", "behind", "ahead"),
    [
        ({0: 61, 1: 7}, None, 0, 0),
        ({0: 61, 1: 9}, None, 0, 2),
        ({0: 30, 1: 7}, {0: 29, 1: 6}, 31, 0),
        # Within an epoch with gaps nobody knows which record is the first that was not read.
        ({0: 55, 1: 7}, {0: 49, 1: 6}, 6, 0),
        ({0: 61}, {0: 58, 1: -1}, 7, 0),
    ],
)
def test_records_that_were_read_for_sure(
    upto: dict[int, int], known: dict[int, int] | None, behind: int, ahead: int
) -> None:
    assert ORDERS.map_progress(read(upto)) == known
    assert (ORDERS.behind(read(upto)), ORDERS.ahead(read(upto))) == (behind, ahead)


def test_places_of_records() -> None:
    assert [ORDERS.place(0, 7), ORDERS.place(0, 52), ORDERS.place(1, 9)] == ["orders/0@7", "orders/0@50..60", None]


@pytest.mark.prove
def test_what_an_application_has_not_read_is_not_compared(town: Town, settings: Settings) -> None:
    """Its group has committed all but o7's tombstone and the customer's: both rows are still in its output."""
    from confluent_kafka import Consumer, TopicPartition

    shop = Shop(town, settings)
    node = named(shop)
    shop.send(SENT)
    shop.run()
    theirs = [row for row in RIGHT if row[1] is not None]
    topic, group = shop.writes("behind", theirs), f"app-{town.named('x')}"
    with pytest.raises(GroupMissingError, match="has committed no offsets"):
        progress(town.connection, group, frozenset())
    consumer = Consumer({"bootstrap.servers": town.broker.address, "group.id": group})
    places = [TopicPartition(town.named(name), 0, offset) for name, offset in (("orders", 9), ("customers", 2))]
    consumer.commit(offsets=[*places, TopicPartition(topic, 0, 3)], asynchronous=False)
    consumer.close()
    outcome = shop.audit(node, topic, group=group)
    assert found(outcome) == {("o1",): ("extra", "unread"), ("o2",): ("extra", "unread"), ("o7",): ("extra", "unread")}
    assert (outcome.holds, outcome.losses, outcome.explained) == (True, 0, 3)
    assert outcome.marks.progress is not None
    assert outcome.marks.progress.waiting == {topic: len(theirs) - 3}, "as of a topic of its own"
    assert isinstance(outcome.shadow, Shadow)
