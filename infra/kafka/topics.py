"""Creates topics, and translates errors of the broker about topics, for feeds, sources and sinks.

| error of librdkafka | result |
|---|---|
| one of its three errors for a missing topic | `TopicMissingError` |
| the topic to be created exists | none: another client was first |
| anything else | `BrokerUnavailableError`, with the error's name and no host |

Held by ``tests/infra/sources/kafka/test_faults.py`` and ``tests/infra/sinks/test_delivery.py``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rivermeet.infra.kafka.connection import Connection, unavailable
from rivermeet.infra.kafka.refusals import BrokerUnavailableError, TopicMissingError, TopicRefusedError
from rivermeet.pipelines import limits

if TYPE_CHECKING:
    from confluent_kafka import KafkaException


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
    """Wait until the broker knows the topic, and each partition has a leader."""
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
