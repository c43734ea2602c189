"""Consumes the records of a slice, in the order of their partitions, once and without a group.

    slice {0: [3, 9)}    the topic has 3, 4, an aborted transaction at 5 and 6, 7, an open one from 9 on

    given                3, 4, 7
    done                 when the position has reached 9: offset 8 is the end of the transaction and not a record
    refused              when offset 3 was removed meanwhile, when the log below it is not the one that was read, as
                         the leader epoch shows, or when no record and no end came for a minute

Held by ``tests/infra/sources/kafka/test_reading.py`` and ``tests/infra/sources/kafka/test_faults.py``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from rivermeet.infra.kafka.connection import Connection, unavailable
from rivermeet.infra.kafka.refusals import BrokerUnavailableError, EndWentBackError, RecordsGoneError
from rivermeet.infra.sources.kafka.topic import topic_id
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import limits

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message


def consume_slice(
    connection: Connection, planned: TopicSlice, name: str, patience: float = limits.PROGRESS_SECONDS
) -> Iterator[list[Message]]:
    """The records of a slice, as many at a time as are available; TopicRefusedError if they cannot be read.

    ``name`` is what reads it, such as ``PIPELINE.SOURCE``, and ``patience`` the seconds to wait for progress.
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
        # librdkafka's message contains hosts.
        raise unavailable(error.args[0], planned.topic, connection) from None
    finally:
        consumer.close()


def _until(
    consumer: Consumer, planned: TopicSlice, ends: dict[int, int], name: str, connection: Connection, patience: float
) -> Iterator[list[Message]]:
    from confluent_kafka import TopicPartition

    def is_within(message: Message) -> bool:
        return cast(int, message.offset()) < ends.get(cast(int, message.partition()), 0)

    most, deadline, places = 100, time.monotonic() + patience, dict[int, int]()
    while ends:
        given = consumer.consume(most, 0.5)
        for error in filter(None, [message.error() for message in given]):
            _refuse(error, planned, name, connection)
        messages = [message for message in given if message.error() is None and is_within(message)]
        if messages:
            yield messages
        # Depending on the size of earlier records: ten thousand of 10 MB each would not fit.
        most = (
            max(1, min(limits.TAKEN_RECORDS, limits.TAKEN_BYTES * len(given) // max(sum(map(len, messages)), 1)))
            if given
            else most
        )
        for place in consumer.position([TopicPartition(planned.topic, p) for p in ends]):
            if place.offset >= ends[place.partition]:
                del ends[place.partition]
                # Records after the slice need not be fetched.
                consumer.incremental_unassign([TopicPartition(planned.topic, place.partition)])
            elif place.offset > places.get(place.partition, -1):
                places[place.partition] = place.offset
                deadline = time.monotonic() + patience
        if ends and time.monotonic() > deadline:
            # The consumer reports no error for a deleted topic.
            topic_id(connection, planned.topic)
            raise BrokerUnavailableError(
                f"'{name}': the broker gave no record of topic '{planned.topic}' for {patience:.0f} s; the "
                "plan is kept: run again",
                source=name,
                topic=planned.topic,
            )


def _refuse(error: KafkaError, planned: TopicSlice, name: str, connection: Connection) -> None:
    """Raise for an event that waiting does not resolve; the end of a partition and lost connections are ignored."""
    from confluent_kafka import KafkaError

    where = name.replace(".", " ")
    if error.code() == KafkaError._AUTO_OFFSET_RESET and "truncat" in error.str().lower():
        raise EndWentBackError(
            f"source '{name}': topic '{planned.topic}' has lost records that were read of it, and others lie under "
            "their offsets: a leader without them was elected, or a disk was lost. "
            f"`rivermeet rebuild {where.replace(' ', ' --select ')}` reads what it has now; "
            f"`rivermeet accept-loss {where}` continues after what was read, without the records before",
            source=name,
            topic=planned.topic,
        )
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise RecordsGoneError(
            f"source '{name}': topic '{planned.topic}' removed records of its slice while it was read; "
            f"`rivermeet accept-loss {where}` continues with what is there, and says what is lost",
            source=name,
            topic=planned.topic,
        )
    if error.fatal() or error.code() in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
    ):
        raise unavailable(error, planned.topic, connection)
