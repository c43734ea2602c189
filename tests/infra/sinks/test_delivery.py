"""Changelogs delivered to a real broker: each row once for readers of committed records, whatever is killed when.

delivery 1    ann 1, bob 2, ann null       epoch 1: three records, one transaction
delivery 2    cat 3                        epoch 2: one record
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from rivermeet.infra import crash
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.sinks.kafka import deliver as sending
from rivermeet.infra.sinks.kafka.deliver import Delivered, deliver, read_back
from rivermeet.infra.sinks.kafka.messages import EPOCH, NODE
from rivermeet.infra.sinks.kafka.position import Position, last_position, positions_topic, prepare
from rivermeet.infra.sinks.kafka.refusals import SinkFencedError, SinkRebuiltError, SinkTopicMissingError
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.pipelines import JSON, Kafka, Node, Pipeline, Text
from tests.infra.sources.kafka.town import Town

ONE = ((0, "ann", {"n": 1}, 10), (0, "bob", {"n": 2}, 11), (0, "ann", None, 12))
TWO = ((0, "cat", {"n": 3}, 13),)
SENT = [("ann", {"n": 1}, 10), ("bob", {"n": 2}, 11), ("ann", None, 12)]


class Killed(BaseException):
    """In place of SIGKILL: nothing that the process was about to do is done."""


@dataclass
class Shop:
    """A table that is read from one topic, and written to another."""

    town: Town
    partitions: int | None = 2
    node: Node = field(init=False)

    def __post_init__(self) -> None:
        pipeline = Pipeline("shop")
        self.node = pipeline.table("stock", Kafka(self.town.named("stock"), key=Text("id"), value=JSON({"n": "INT"})))
        self.sink = self.node.to_topic(self.town.named("out"), partitions=self.partitions)
        self.town.make("stock")

    def commit(self, *messages: Any) -> None:
        """One epoch of these records."""
        self.town.send("stock", *messages)
        assert self.town.run(self.node) is not None

    def deliver(self, **options: Any) -> Delivered:
        found = deliver(self.sink, self.changelog, self.town.connection, lambda: self.town.world.spark, **options)
        assert found is not None
        return found

    @property
    def changelog(self) -> str:
        return self.town.world.runner("shop").paths(self.node).changelog

    def topic(self) -> list[Any]:
        """Committed records of the topic, by offset within its partitions: key, value, timestamp."""
        return [
            (m.key().decode(), None if m.value() is None else json.loads(m.value()), m.timestamp()[1])
            for m in committed(self.town, self.sink.topic)
        ]


def committed(town: Town, topic: str) -> Sequence[Any]:
    """Records that a reader of committed ones sees, in the order of our changelog within each key."""
    state = topic_state(town.connection, topic)
    # A commit is answered before its end is in all partitions; what a killed process leaves open has none.
    for _ in range(20):
        if state.stable == state.high:
            break
        time.sleep(0.1)
        state = topic_state(town.connection, topic)
    consumer = town.connection.consumer()
    places = [TopicPartition(topic, p, state.low[p]) for p, end in state.stable.items() if end > state.low[p]]
    consumer.assign(places)
    found: list[Any] = []
    while any(place.offset < state.stable[place.partition] for place in consumer.position(places)):
        found += [m for m in consumer.consume(1000, 0.5) if m.error() is None]
    consumer.close()
    return sorted(found, key=lambda m: (m.timestamp()[1], m.partition(), m.offset()))


def headers(message: Any) -> Mapping[str, str]:
    return {name: value.decode() for name, value in message.headers()}


def test_each_epoch_is_a_transaction_with_its_position(town: Town) -> None:
    shop = Shop(town)
    shop.commit(*ONE)
    first = shop.deliver()
    assert (first.rows, first.position.epoch, first.position.ends) == (3, 1, {0: 2})
    assert shop.topic() == SENT
    assert shop.deliver().rows == 0
    shop.commit(*TWO)
    assert shop.deliver().rows == 1
    assert shop.topic() == [*SENT, ("cat", {"n": 3}, 13)]
    assert [headers(m)[EPOCH] for m in committed(town, shop.sink.topic)] == ["1", "1", "1", "2"]
    assert {headers(m)[NODE] for m in committed(town, shop.sink.topic)} == {"stock"}


def test_it_catches_up_epoch_by_epoch(town: Town) -> None:
    shop = Shop(town)
    shop.commit(*ONE)
    shop.commit(*TWO)
    found = shop.deliver()
    assert [(part.epoch, part.records) for part in found.written] == [(1, 3), (2, 4)]
    assert read_back(town.connection, shop.sink, found.written) == 4


@pytest.mark.prove
def test_a_large_epoch_is_several_transactions(town: Town) -> None:
    shop = Shop(town)
    shop.commit(*ONE)
    shop.commit(*TWO)
    found = shop.deliver(most=2)
    assert [(part.epoch, part.ends, part.records) for part in found.written] == [
        (1, {0: 1}, 2),
        (1, {0: 2}, 3),
        (2, {0: 3}, 4),
    ]
    assert shop.topic() == [*SENT, ("cat", {"n": 3}, 13)]


@pytest.mark.parametrize(("point", "sees"), [("sending", []), ("marked", []), ("delivered", SENT[:2])])
def test_killed_at_each_point(town: Town, monkeypatch: pytest.MonkeyPatch, point: str, sees: list[Any]) -> None:
    shop = Shop(town)
    shop.commit(*ONE)

    def killed(at: str, node: str) -> None:
        if at == point:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(crash, "crash_at", killed)
        # A process that is killed aborts nothing.
        patched.setattr(sending, "suppress", _never)
        with pytest.raises((Killed, KeyError)):
            shop.deliver(most=2)
    assert shop.topic() == sees
    assert shop.deliver(most=2).position.records == 3
    assert shop.topic() == SENT
    assert shop.deliver().rows == 0


class _never:
    """In place of the block that aborts: it is not entered."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        pass

    def __enter__(self) -> None:
        raise KeyError

    def __exit__(self, *error: object) -> None:
        pass


def test_an_older_process_is_fenced(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(town)
    shop.commit(*ONE)

    def other(at: str, node: str) -> None:
        if at == "marked":
            monkeypatch.undo()
            assert shop.deliver().rows == 3

    monkeypatch.setattr(crash, "crash_at", other)
    with pytest.raises(SinkFencedError, match="another process has begun to write it for 'stock'"):
        shop.deliver()
    assert shop.topic() == SENT


def test_the_position_is_the_last_of_its_writer_that_is_committed(town: Town) -> None:
    shop = Shop(town)
    prepare(town.connection, shop.sink)
    topic, written = shop.sink.topic, Position(epoch=1, ends={0: 4}, records=5)
    producer = Producer({"bootstrap.servers": town.broker.address})
    producer.produce(positions_topic(topic), written.model_dump_json(), "one")
    producer.produce(positions_topic(topic), Position(epoch=9).model_dump_json(), "other")
    producer.flush(10)
    opened = town.connection.producer("one")
    opened.init_transactions(20)
    opened.begin_transaction()
    opened.produce(positions_topic(topic), Position(epoch=2).model_dump_json(), "one")
    opened.flush(10)
    assert last_position(town.connection, topic, "one") == written, "what is open does not count"
    opened.abort_transaction(20)
    assert last_position(town.connection, topic, "nobody") is None


def test_a_topic_that_is_not_there(town: Town) -> None:
    shop = Shop(town, partitions=None)
    shop.commit(*ONE)
    with pytest.raises(SinkTopicMissingError, match=r"there is none: make it, or declare to_topic\('out-"):
        shop.deliver()
    town.make("out", 3)
    assert shop.deliver().rows == 3
    assert len(topic_state(town.connection, shop.sink.topic).stable) == 3


@pytest.mark.prove
def test_a_rebuilt_node_is_not_mixed_with_what_was_delivered(town: Town) -> None:
    shop = Shop(town)
    shop.commit(*ONE)
    shop.deliver()
    assert town.rebuild(shop.node) is not None
    with pytest.raises(SinkRebuiltError, match="declare another topic for the new ones"):
        shop.deliver()
    found = last_note(shop.changelog)
    assert found is not None and found[1].incarnation == 2


def test_keys_lie_where_java_puts_them(town: Town) -> None:
    """Partitions of murmur2 as Kafka's Java clients give them, of four."""
    shop = Shop(town, partitions=4)
    keys = ("ann", "bob", "cat", "dan", "eve")
    shop.commit(*((0, key, {"n": 1}, 10) for key in keys))
    shop.deliver()
    partitions = {m.key().decode(): m.partition() for m in committed(town, shop.sink.topic)}
    assert partitions == {key: (_murmur2(key.encode()) & 0x7FFFFFFF) % 4 for key in keys}


def _murmur2(data: bytes) -> int:
    """MurmurHash2 with Kafka's seed, by its published definition."""
    mask, m, h = 0xFFFFFFFF, 0x5BD1E995, (0x9747B28C ^ len(data)) & 0xFFFFFFFF
    whole = len(data) - len(data) % 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    if len(data) % 4:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)
