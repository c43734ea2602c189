"""The records of a slice, in the order of their partitions, as the broker gives them: read once, in no group.

    slice {0: [3, 9)}    the topic has 3, 4, an aborted transaction at 5 and 6, 7, an open one from 9 on

    given                3, 4, 7
    done                 when the position has come to 9, for 8 ended the transaction and no record lies there
    refused              when offset 3 was removed meanwhile, when the log below it is another one than was read, as
                         the leader epoch shows, or when no record and no end came for a minute

Held by ``tests/infra/sources/kafka/test_reading.py`` and ``tests/infra/sources/kafka/test_faults.py``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from rivermeet.infra.epochs.plan import TopicSlice
from rivermeet.infra.sources.kafka.connection import Connection, unavailable
from rivermeet.infra.sources.kafka.refusals import BrokerUnavailableError, EndWentBackError, RecordsGoneError
from rivermeet.infra.sources.kafka.topic import topic_id

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

PATIENCE = 60.0
"""Seconds without any progress, after which the broker counts as gone."""
_MOST, _BYTES = 10_000, 16 << 20
"""Records, and bytes, that are taken at once."""


def consumed(
    connection: Connection, planned: TopicSlice, name: str, patience: float = PATIENCE
) -> Iterator[list[Message]]:
    """The records of a slice, as many at a time as lie ready.

    Parameters
    ----------
    name
        The source, as ``PIPELINE.SOURCE``.
    patience
        Seconds to wait for progress.

    Raises
    ------
    TopicRefusedError
        Where they cannot be read.
    """
    from confluent_kafka import KafkaException, TopicPartition

    ends = {p: end for p, (_, end) in planned.unread.items()}
    if not ends:
        return
    consumer = connection.consumer()
    try:
        starts = {p: (start, planned.since.get(p, -1)) for p, (start, _) in planned.unread.items()}
        places = [TopicPartition(planned.topic, p, start, leader_epoch=epoch) for p, (start, epoch) in starts.items()]
        consumer.assign(places)
        yield from _until(consumer, planned, ends, name, connection, patience)
    except KafkaException as error:
        # What librdkafka says of it names hosts.
        raise unavailable(error.args[0], planned.topic, connection) from None
    finally:
        consumer.close()


def _until(
    consumer: Consumer, planned: TopicSlice, ends: dict[int, int], name: str, connection: Connection, patience: float
) -> Iterator[list[Message]]:
    from confluent_kafka import TopicPartition

    most, deadline, places = 100, time.monotonic() + patience, dict[int, int]()
    while ends:
        given = consumer.consume(most, 0.5)
        for error in filter(None, [message.error() for message in given]):
            _refuse(error, planned, name, connection)
        messages = [message for message in given if message.error() is None and _is_within(message, ends)]
        if messages:
            yield messages
        # By the size of those before: ten thousand of 10 MB each would not fit.
        most = max(1, min(_MOST, _BYTES * len(given) // max(sum(map(len, messages)), 1))) if given else most
        for place in consumer.position([TopicPartition(planned.topic, p) for p in ends]):
            if place.offset >= ends[place.partition]:
                del ends[place.partition]
                # What comes after the slice would be fetched for nothing.
                consumer.incremental_unassign([TopicPartition(planned.topic, place.partition)])
            elif place.offset > places.get(place.partition, -1):
                places[place.partition] = place.offset
                deadline = time.monotonic() + patience
        if ends and time.monotonic() > deadline:
            # Of a topic that was deleted the consumer says nothing.
            topic_id(connection, planned.topic)
            raise BrokerUnavailableError(
                f"source '{name}': the broker gave no record of topic '{planned.topic}' for {patience:.0f} s; what was "
                "planned stands: run again"
            )


def _is_within(message: Message, ends: dict[int, int]) -> bool:
    return cast(int, message.offset()) < ends.get(cast(int, message.partition()), 0)


def _refuse(error: KafkaError, planned: TopicSlice, name: str, connection: Connection) -> None:
    """Raise for an event that no waiting mends; the end of a partition and lost connections are none."""
    from confluent_kafka import KafkaError

    where = name.replace(".", " ")
    if error.code() == KafkaError._AUTO_OFFSET_RESET and "truncat" in error.str().lower():
        raise EndWentBackError(
            f"source '{name}': topic '{planned.topic}' has lost records that were read of it, and others lie under "
            "their offsets: a leader without them was elected, or a disk was lost. "
            f"`rivermeet rebuild {where.replace(' ', ' --select ')}` reads what it has now; "
            f"`rivermeet accept-loss {where}` goes on behind what was read, without what lies below"
        )
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise RecordsGoneError(
            f"source '{name}': topic '{planned.topic}' removed records of its slice while it was read; "
            f"`rivermeet accept-loss {where}` goes on with what is there, and says what is lost"
        )
    if error.fatal() or error.code() in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
    ):
        raise unavailable(error, planned.topic, connection)
