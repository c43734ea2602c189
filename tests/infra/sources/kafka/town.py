"""Topics that a test makes and fills, and the nodes that read them, run by the real commit protocol."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import uuid4

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic  # pyright: ignore[reportAttributeAccessIssue]

from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.kafka.connection import Connection
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.source_kinds import DEBEZIUM, kind_of
from rivermeet.infra.sources.debezium.ingest import EnvelopeStep
from rivermeet.infra.sources.files.ingest import IngestStep
from rivermeet.infra.sources.kafka.ingest import TopicStep
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.pipelines import Kafka, Node
from tests.infra.sources.place import Place
from tests.servers.broker import Broker

Message = tuple[int, Any, Any, int]
"""Partition, key, value and timestamp; text is written as it stands, a dict as JSON, None as nothing."""


@dataclass
class Town(Place):
    """One test's topics and tables.

    Attributes
    ----------
    registry
        URL of a schema registry.
    """

    broker: Broker
    registry: str = ""
    patience: float = 20.0
    letters_by = ("epoch", "file", "line")
    _suffix: str = field(default_factory=lambda: uuid4().hex[:8])

    def named(self, topic: str) -> str:
        """The name that the broker knows a test's topic by."""
        return f"{topic}-{self._suffix}"

    @cached_property
    def connection(self) -> Connection:
        return Connection({"bootstrap.servers": self.broker.address})

    @property
    def admin(self) -> AdminClient:
        return self.connection.admin

    def make(self, topic: str, partitions: int = 1, **settings: Any) -> str:
        """Make a topic that keeps everything, unless ``settings`` say otherwise; its full name."""
        name = self.named(topic)
        config = {"retention.ms": "-1"} | {k.replace("_", "."): str(v) for k, v in settings.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
        self.ready(topic, partitions)
        return name

    def ready(self, topic: str, partitions: int) -> None:
        """Wait until each partition has a leader: for a tenth of a second it has none."""
        for _ in range(200):
            try:
                if len(topic_state(self.connection, self.named(topic)).stable) == partitions:
                    return
            except Exception:
                pass
            time.sleep(0.05)
        raise TimeoutError(topic)

    def until(self, topic: str, stable: Mapping[int, int]) -> None:
        """Wait for these stable ends: the broker answers that a transaction has ended before readers see it."""
        for _ in range(200):
            if topic_state(self.connection, self.named(topic)).stable == stable:
                return
            time.sleep(0.05)
        raise TimeoutError(topic)

    def delete(self, topic: str) -> None:
        name = self.named(topic)
        self.admin.delete_topics([name])[name].result()

    def grow(self, topic: str, partitions: int) -> None:
        name = self.named(topic)
        self.admin.create_partitions([NewPartitions(name, partitions)])[name].result()
        self.ready(topic, partitions)

    def remove_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Remove records as retention does."""
        places = [TopicPartition(self.named(topic), p, offset) for p, offset in offsets.items()]
        for removed in self.admin.delete_records(places).values():
            removed.result()

    def send(self, topic: str, *messages: Message, headers: Any = None) -> None:
        """Append messages, in their order."""
        producer = Producer({"bootstrap.servers": self.broker.address, "message.max.bytes": 32 << 20})
        self._put(producer, topic, messages, headers)
        assert producer.flush(20) == 0

    @contextmanager
    def transaction(self, topic: str, *messages: Message) -> Iterator[Producer]:
        """A transaction with these messages in it; the block commits or aborts it, or leaves it open."""
        producer = Producer({"bootstrap.servers": self.broker.address, "transactional.id": uuid4().hex, "log_level": 0})
        producer.init_transactions(20)
        producer.begin_transaction()
        self._put(producer, topic, messages)
        producer.flush(20)
        yield producer

    def _put(self, producer: Producer, topic: str, messages: Iterable[Message], headers: Any = None) -> None:
        for partition, key, value, timestamp in messages:
            producer.produce(
                self.named(topic), _payload(value), _payload(key), partition, timestamp=timestamp, headers=headers
            )
            producer.poll(0)

    def source_step(self, node: Node, context: EpochContext) -> Any:
        assert node.source is not None
        paths = context.paths(node)
        if not isinstance(node.source.reads, Kafka):
            return IngestStep(node, paths, context.log, str(self.world.root / "data"), lambda: self.world.spark)
        registry = Registry(self.registry, self.world.root / "schemas")
        landing = self.world.root / "landing" / node.name
        of = EnvelopeStep if kind_of(node) is DEBEZIUM else TopicStep
        return of(node, paths, context.log, self.connection, registry, landing, patience=self.patience)

    def rows(self, node: Node) -> list[tuple[Any, ...]]:
        """Of each record partition, offset, key, value (None: a tombstone) and timestamp, in order."""
        rows = sorted(self.world.rows(node), key=lambda row: (row["partition"], row["offset"]))
        return [
            (
                row["partition"],
                row["offset"],
                tuple(row["key"].values()),
                None if row["value"] is None else tuple(row["value"].values()),
                row["timestamp"],
            )
            for row in rows
        ]


def _payload(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


__all__ = ["KafkaException", "Message", "Town"]
