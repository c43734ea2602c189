"""What happens to a delivery, to its topics and to the broker meanwhile: each row once, or a refusal with its cure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from rivermeet.infra import crash
from rivermeet.infra.settings import PROJECT
from rivermeet.infra.sinks.kafka.deliver import read_back
from rivermeet.infra.sinks.kafka.position import last_position, positions_topic
from rivermeet.infra.sinks.kafka.refusals import DeliveryFailedError, SinkPositionLostError, SinkTopicRemadeError
from rivermeet.infra.sources.kafka.topic import topic_state
from tests.infra.sinks.test_delivery import ONE, SENT, TWO, Shop, committed
from tests.infra.sources.kafka.town import Town
from tests.reliability import survived
from tests.servers.broker import running

ONCE = "the next run delivers each row once"


def process(shop: Shop, point: str = "", killed: bool = False) -> subprocess.Popen[str]:
    """Delivery in a process of its own, that is killed at a point or waits there."""
    town = shop.town
    given = [str(town.world.root), town.broker.address, town.named("stock"), shop.sink.topic]
    command = [sys.executable, "-m", "tests.infra.sinks.delivering", *given, *([point] if point and not killed else [])]
    env = os.environ | ({crash.SETTING: point} if killed else {})
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, cwd=PROJECT, env=env, text=True, **pipes)


@pytest.mark.prove
@pytest.mark.parametrize(("point", "sees"), [("sending", []), ("marked", []), ("delivered", SENT[:2])])
def test_sigkill_at_each_point(town: Town, point: str, sees: list[Any]) -> None:
    """What the dead process left open is ended by the next one, and not waited for."""
    shop = Shop(town)
    shop.commit(*ONE)
    dead = process(shop, point, killed=True)
    _, said = dead.communicate(timeout=120)
    assert dead.returncode == -signal.SIGKILL, said
    assert shop.topic() == sees
    start = time.monotonic()
    assert shop.deliver(most=2).position.records == 3
    assert time.monotonic() - start < 30, "a transaction times out after five minutes"
    assert shop.topic() == SENT
    assert shop.deliver().rows == 0
    survived(f"SIGKILL of a delivery to a topic, {point}", ONCE)


@pytest.mark.prove
@pytest.mark.parametrize("point", ["sending", "marked"])
def test_two_writers(town: Town, point: str) -> None:
    """The one that came first goes on when the other is done: it is fenced, and what it had sent is aborted."""
    shop = Shop(town)
    shop.commit(*ONE)
    first = process(shop, point)
    assert first.stdout is not None and first.stdout.readline() == "waiting\n"
    assert shop.deliver().rows == 3
    _, said = first.communicate("\n", timeout=120)
    assert (first.returncode, said.strip().splitlines()[-1]) == (1, "SinkFencedError")
    assert shop.topic() == SENT
    survived("two processes that deliver to one topic", "the older one is fenced, and each row is there once")


@pytest.mark.prove
@pytest.mark.parametrize("point", ["sending", "marked", "delivered"])
def test_a_broker_that_restarts_while_it_is_written(town: Town, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """On a broker of its own, killed in the middle of a transaction or right behind it."""
    with running() as own:
        shop = Shop(Town(town.world, own))
        shop.commit(*ONE)
        shop.commit(*TWO)

        def restarted(at: str, node: str) -> None:
            if at == point:
                monkeypatch.undo()
                own.kill()
                own.start()

        monkeypatch.setattr(crash, "crash_at", restarted)
        try:
            shop.deliver(most=2)
        except DeliveryFailedError as refusal:
            assert "run again" in str(refusal)
        shop.deliver(most=2)
        assert shop.topic() == [*SENT, ("cat", {"n": 3}, 13)]
    survived(f"a broker killed and started again while it is written, {point}", ONCE)


def test_a_broker_that_is_down(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is refused, and the next one catches up."""
    shop = Shop(town)
    shop.commit(*ONE)

    def failed(at: str, node: str) -> None:
        if at == "sending":
            raise ConnectionResetError

    with monkeypatch.context() as patched:
        patched.setattr(crash, "crash_at", failed)
        with pytest.raises(ConnectionResetError):
            shop.deliver()
    assert shop.topic() == [], "it is aborted, and readers wait for nothing"
    shop.commit(*TWO)
    assert shop.deliver().rows == 4
    assert shop.topic() == [*SENT, ("cat", {"n": 3}, 13)]


@pytest.mark.prove
def test_ten_megabytes(town: Town) -> None:
    """A row that the topic does not take is refused with what to raise; then it is delivered, and read back."""
    shop = Shop(town)
    large = os.urandom(5 << 20).hex()
    town.send("stock", (0, "a", {"n": 1}, 10), (0, large, {"n": 2}, 11))
    assert town.run(shop.node) is not None
    town.make("out", 2, max_message_bytes=1 << 20)
    with pytest.raises(DeliveryFailedError, match=r"MSG_SIZE_TOO_LARGE.*raise its max\.message\.bytes"):
        shop.deliver()
    assert shop.topic() == []
    configure(town, shop.sink.topic, "max.message.bytes", 32 << 20)
    found = shop.deliver()
    assert read_back(town.connection, shop.sink, found.written) == 2
    assert [key for key, *_ in shop.topic()] == ["a", large]
    survived("a row of 10 MB", "refused with the topic's setting to raise, and delivered once it is raised")


def configure(town: Town, topic: str, name: str, value: object) -> None:
    """Change a setting of a topic."""
    entry = ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    town.admin.incremental_alter_configs([resource])[resource].result()


def test_skewed_clocks(town: Town) -> None:
    """Times that go back are written as they are; one far ahead is refused by a topic that does not take it."""
    shop = Shop(town)
    ahead = int(time.time() * 1000) + 2 * 24 * 3_600_000
    configure(town, town.named("stock"), "message.timestamp.after.max.ms", 2**63 - 1)
    shop.commit((0, "a", {"n": 1}, 2_000), (0, "a", {"n": 2}, 1_000), (0, "b", {"n": 3}, ahead))
    town.make("out", 1, message_timestamp_after_max_ms=3_600_000)
    with pytest.raises(DeliveryFailedError, match=r"INVALID_TIMESTAMP.*message\.timestamp\.after\.max\.ms"):
        shop.deliver()
    configure(town, shop.sink.topic, "message.timestamp.after.max.ms", 2**63 - 1)
    assert shop.deliver().rows == 3
    in_order = sorted(committed(town, shop.sink.topic), key=lambda message: message.offset())
    assert [(m.key(), m.timestamp()[1]) for m in in_order] == [(b"a", 2_000), (b"a", 1_000), (b"b", ahead)]
    survived("a row's time far ahead of the broker's clock", "refused with the topic's setting to raise, or delivered")


@pytest.mark.prove
def test_a_topic_that_was_recreated(town: Town) -> None:
    """Its rows so far are gone, and to go on behind them would hide it."""
    shop = Shop(town)
    shop.commit(*ONE)
    shop.deliver()
    town.delete("out")
    forgotten(town, "out")
    shop.commit(*TWO)
    with pytest.raises(SinkTopicRemadeError, match="the rows up to epoch 1 are not in it; delete topic 'out-"):
        shop.deliver(known=1)
    positions = positions_topic(shop.sink.topic)
    town.admin.delete_topics([positions])[positions].result()
    time.sleep(1)
    assert shop.deliver(known=1).rows == 4, "nothing was ever written to the new one"
    assert shop.topic() == [*SENT, ("cat", {"n": 3}, 13)]
    survived("a topic that is written was deleted or recreated", "refused, until its positions are deleted, too")


@pytest.mark.prove
def test_positions_that_are_lost(town: Town) -> None:
    """Without them a run would deliver all rows a second time."""
    shop = Shop(town)
    shop.commit(*ONE)
    shop.deliver()
    positions = positions_topic(shop.sink.topic)
    town.admin.delete_topics([positions])[positions].result()
    time.sleep(1)
    shop.commit(*TWO)
    with pytest.raises(SinkPositionLostError, match=r"up to epoch 1, and topic 'out-.*-positions' says nothing"):
        shop.deliver(known=1)
    assert shop.topic() == SENT
    survived("the positions of a topic that is written are lost", "refused: rows would be delivered twice")


def forgotten(town: Town, topic: str) -> None:
    """Wait until the broker has forgotten a topic that it deletes."""
    for _ in range(100):
        if town.named(topic) not in town.admin.list_topics(timeout=10).topics:
            return
        time.sleep(0.05)


@pytest.mark.prove
def test_compacted_positions(town: Town) -> None:
    """The last position of a writer outlives compaction, and all that others write beside it."""
    shop = Shop(town)
    shop.commit(*ONE)
    written = shop.deliver().position
    name = positions_topic(shop.sink.topic)
    for setting, value in (("segment.ms", 100), ("min.cleanable.dirty.ratio", 0.01), ("max.compaction.lag.ms", 1)):
        configure(town, name, setting, value)
    others = Producer({"bootstrap.servers": town.broker.address})
    for n in range(30):
        others.produce(name, f'{{"epoch": {n}}}', "other")
        others.flush(10)
        time.sleep(0.2)
    deadline = time.monotonic() + 60
    while stored(town, name) > 20 and time.monotonic() < deadline:
        time.sleep(0.5)
    assert stored(town, name) <= 20, "it was compacted"
    assert last_position(town.connection, shop.sink.topic, "rivermeet.shop." + shop.sink.id) == written
    shop.commit(*TWO)
    assert shop.deliver().rows == 1
    survived("compaction of a written topic's positions", ONCE)


def stored(town: Town, topic: str) -> int:
    """How many records a topic of one partition has."""
    end = topic_state(town.connection, topic).stable[0]
    given = {"bootstrap.servers": town.broker.address, "group.id": "x", "enable.partition.eof": True}
    consumer = Consumer(given)
    place = TopicPartition(topic, 0, 0)
    consumer.assign([place])
    found = 0
    while consumer.position([place])[0].offset < end:
        found += sum(message.error() is None for message in consumer.consume(1000, 0.5))
    consumer.close()
    return found
