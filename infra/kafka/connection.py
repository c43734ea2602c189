"""Clients of the broker that the settings name; their messages reveal neither its address nor credentials.

| what fails | what a message says |
|---|---|
| no broker is set | set RIVERMEET_KAFKA to host:port |
| a variable names no property | RIVERMEET_KAFKA_SASL_PASWORD names no property of librdkafka |
| the broker is down | the broker that RIVERMEET_KAFKA names does not answer (_TRANSPORT) |
| the password is wrong; the certificate is not trusted | the same, (_AUTHENTICATION); (_SSL) |

librdkafka's own messages contain hosts, so only the names of its errors are shown. Of a topic:

| error of librdkafka | result |
|---|---|
| one of its three errors for a missing topic | `TopicMissingError` |
| the topic to be created exists | none: another client was first |
| anything else | `BrokerUnavailableError`, with the error's name and no host |

Held by ``tests/infra/sources/kafka/test_connection.py``, ``tests/infra/sources/kafka/test_faults.py`` and
``tests/infra/sinks/test_delivery.py``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from rivermeet.infra.kafka.refusals import BrokerUnavailableError, TopicMissingError, TopicRefusedError
from rivermeet.infra.settings import SettingsError
from rivermeet.pipelines import limits
from rivermeet.pipelines.extras import require

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
    from confluent_kafka.admin import AdminClient


_silent = logging.getLogger("rivermeet.librdkafka")
# Not `disabled`: programs that configure logging, such as Dagster, set that to False for all existing loggers.
_silent.addFilter(lambda _: False)


@dataclass(frozen=True)
class Connection:
    """The broker that all topics are read from, by librdkafka's properties as the settings give them."""

    properties: Mapping[str, str] = field(repr=False)
    _refused: set[str] = field(default_factory=set, repr=False, compare=False)

    def __post_init__(self) -> None:
        require("confluent_kafka")

    @cached_property
    def admin(self) -> AdminClient:
        """Answers questions about topics."""
        from confluent_kafka.admin import AdminClient

        return self._make(AdminClient, {})

    def consumer(self) -> Consumer:
        """Reads assigned partitions: only committed records, from given offsets, without a group."""
        from confluent_kafka import Consumer

        return self._make(
            Consumer,
            {
                # librdkafka requires a name; nothing is ever committed under it.
                "group.id": "rivermeet",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "allow.auto.create.topics": False,
                "fetch.wait.max.ms": 50,
                "fetch.message.max.bytes": limits.FETCHED_BYTES,
                "queued.min.messages": 1_000_000,
                "queued.max.messages.kbytes": limits.QUEUED_KILOBYTES,
            },
        )

    def producer(self, writer: str) -> Producer:
        """Writes in transactions, as the only writer of that name."""
        from confluent_kafka import Producer

        return self._make(
            Producer,
            {
                "transactional.id": writer,
                "transaction.timeout.ms": 300_000,
                # Like Java's clients: the topic is co-partitioned with those that Kafka Streams writes.
                "partitioner": "murmur2_random",
                "compression.type": "zstd",
                "linger.ms": 20,
                "queue.buffering.max.messages": 500_000,
                # Only the topic limits the size of a record.
                "message.max.bytes": 1_000_000_000,
                "queue.buffering.max.kbytes": 256 << 10,
            },
        )

    def explain(self, error: KafkaError) -> str:
        """The name of an error; for a request that timed out, the reason why the login was refused, if it was."""
        # Only a poll delivers the errors of the client.
        self.admin.poll(0.1)
        return ", ".join(sorted(self._refused)) or error.name()

    def _record_error(self, error: KafkaError) -> None:
        """Record refused logins; lost connections are retried by the client, or end the wait for records."""
        from confluent_kafka import KafkaError

        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self._refused.add(error.name())

    def _make(self, client: Any, own: Mapping[str, Any]) -> Any:
        from confluent_kafka import KafkaException

        if "bootstrap.servers" not in self.properties:
            raise SettingsError(
                "a topic is read or written, and no broker is named: set RIVERMEET_KAFKA to host:port",
                variable="RIVERMEET_KAFKA",
            )
        try:
            return client({**self.properties, **own, "error_cb": self._record_error}, logger=_silent)
        except KafkaException as error:
            name = error.args[0].name()
            at_fault = next((p for p in self.properties if f'"{p}"' in str(error)), None)
            if at_fault is None:
                raise SettingsError(
                    f"a variable RIVERMEET_KAFKA_… has a value that librdkafka refuses ({name})",
                    source=name,
                ) from None
            variable = f"RIVERMEET_KAFKA_{at_fault.upper().replace('.', '_')}"
            raise SettingsError(
                f"{variable} names no property of librdkafka, or has no value of it ({name})",
                variable=variable,
                source=name,
            ) from None


def unavailable(
    error: KafkaError, name: str, connection: Connection, kind: Literal["topic", "group"] = "topic"
) -> BrokerUnavailableError:
    """The refusal for an error of the broker, asked for a topic or a consumer group."""
    return BrokerUnavailableError(
        f"{kind} '{name}': the broker that RIVERMEET_KAFKA names does not answer as it should "
        f"({connection.explain(error)}); what was planned stands: see to the broker, or to RIVERMEET_KAFKA_…, and run "
        "again",
        source=name,
    )


KEEPS_ALL = {"retention.ms": "-1"}
"""Settings of a topic with possibly old event times: by default the broker would remove such records immediately."""


def cluster_id(connection: Connection) -> str:
    """The id of the broker's cluster."""
    from confluent_kafka import KafkaException

    try:
        return str(connection.admin.list_topics(timeout=limits.BROKER_SECONDS).cluster_id)
    except KafkaException as error:
        raise BrokerUnavailableError(
            f"the broker that RIVERMEET_KAFKA or --kafka names does not answer ({connection.explain(error.args[0])})",
            variable="RIVERMEET_KAFKA",
        ) from None


def make_topic(connection: Connection, topic: str, partitions: int, config: Mapping[str, str]) -> bool:
    """Create a topic, and wait until every partition has a leader; return False for an existing one, unchanged."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic  # pyright: ignore[reportAttributeAccessIssue]

    made = NewTopic(topic, partitions, config=dict(config))
    try:
        connection.admin.create_topics([made], operation_timeout=limits.BROKER_SECONDS)[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise topic_refusal(error, topic, connection) from None
        return False
    _wait(connection, topic, partitions)
    return True


def _wait(connection: Connection, topic: str, partitions: int) -> None:
    from confluent_kafka import KafkaException, TopicCollection, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

    deadline, asked = time.monotonic() + limits.BROKER_SECONDS, TopicCollection([topic])
    while True:
        try:
            # Before the offsets: after a request for those of a missing topic, librdkafka caches its absence for half a
            # minute.
            found = (
                connection.admin.describe_topics(asked, request_timeout=limits.BROKER_SECONDS)[topic]
                .result()
                .partitions
            )
            places: dict[TopicPartition, Any] = {TopicPartition(topic, p.id): OffsetSpec.latest() for p in found}
            if len(places) == partitions:
                for answer in connection.admin.list_offsets(places, request_timeout=limits.BROKER_SECONDS).values():
                    answer.result()
                return
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise topic_refusal(error, topic, connection) from None
        time.sleep(0.05)


def topic_refusal(error: KafkaException, topic: str, connection: Connection) -> TopicRefusedError:
    """Translate an error of the broker about a topic."""
    from confluent_kafka import KafkaError

    found = error.args[0]
    if found.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._NOENT):
        return TopicMissingError(
            f"there is no topic '{topic}': make it, or take its source out of the pipeline; if it was deleted, its "
            "records so far stay, and those that were not read are lost",
            topic=topic,
        )
    return unavailable(found, topic, connection)
