"""A part in one transaction with the topic's position: all of it, or nothing that a reader of committed records sees.

    begin, row, row, row, position, commit      three rows and where they end
    begin, row, killed                          nothing: the next run aborts the transaction, and sends them again

Held by ``tests/infra/sinks/test_delivery.py`` and ``tests/infra/sinks/test_faults.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from rivermeet.infra import crash
from rivermeet.infra.sinks.kafka.messages import Message
from rivermeet.infra.sinks.kafka.parts import Part
from rivermeet.infra.sinks.kafka.position import Position, positions_topic
from rivermeet.infra.sinks.kafka.refusals import DeliveryFailedError, SinkFencedError
from rivermeet.pipelines import limits
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.sink import TopicSink

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Producer

_CURES = {
    "MSG_SIZE_TOO_LARGE": "a row is larger than the topic takes: raise its max.message.bytes, and run again",
    "INVALID_TIMESTAMP": "a row is of a time that the topic does not take: raise its "
    "message.timestamp.after.max.ms, or message.timestamp.before.max.ms, and run again",
    "TOPIC_AUTHORIZATION_FAILED": "the user of RIVERMEET_KAFKA_… may not write it: grant WRITE, and run again",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the user of RIVERMEET_KAFKA_… may not write in transactions: "
    "grant it, and run again",
}
"""Remedies of errors that a repeated run does not fix."""


def send(
    producer: Producer, sink: TopicSink, writer: str, part: Part, rows: Iterable[Message], before: Position
) -> Position:
    """Send a part and its position in one transaction; return the position."""
    from confluent_kafka import KafkaException

    acknowledged = _Acknowledged()
    producer.begin_transaction()
    try:
        for row in rows:
            _produce(producer, sink.topic, row, acknowledged)
        crash.crash_at("sending", sink.node.name)
        if producer.flush(limits.COMMIT_SECONDS) or acknowledged.failed or acknowledged.count != part.rows:
            why = ", ".join(sorted(acknowledged.failed)) or "too slow"
            cure = next((_CURES[name] for name in sorted(acknowledged.failed) if name in _CURES), "run again")
            raise DeliveryFailedError(
                f"topic '{sink.topic}': the broker took {acknowledged.count:,} of {pluralize(part.rows, 'row')} of "
                f"epoch {part.epoch} ({why}), and none of them is committed; {cure}",
                topic=sink.topic,
                epoch=part.epoch,
            )
        position = Position(
            incarnation=before.incarnation,
            topic_id=before.topic_id,
            epoch=part.epoch,
            ends=before.ends | part.upto,
            records=before.records + acknowledged.count,
            written=acknowledged.places,
        )
        producer.produce(positions_topic(sink.topic), position.model_dump_json(), writer)
        crash.crash_at("marked", sink.node.name)
    except BaseException:
        # A fenced writer cannot abort: the new writer has aborted its transaction.
        with suppress(KafkaException):
            producer.abort_transaction(limits.BROKER_SECONDS)
        raise
    producer.commit_transaction(limits.COMMIT_SECONDS)
    crash.crash_at("delivered", sink.node.name)
    return position


def _produce(producer: Producer, topic: str, message: Message, acknowledged: _Acknowledged) -> None:
    while True:
        try:
            producer.produce(
                topic,
                message.value,
                message.key,
                timestamp=message.timestamp,
                headers=message.headers,  # pyright: ignore[reportArgumentType]
                on_delivery=acknowledged.one,
            )
            producer.poll(0)
            return
        except BufferError:
            # The queue is full: acknowledged records make room.
            producer.poll(0.1)


class _Acknowledged:
    """Collects the broker's acknowledgements of records."""

    def __init__(self) -> None:
        self.count = 0
        self.places: dict[int, tuple[int, int]] = {}
        self.failed: set[str] = set()

    def one(self, error: object, message: object) -> None:
        """Count one record."""
        if error is not None:
            self.failed.add(error.name())  # pyright: ignore[reportAttributeAccessIssue]
            return
        partition, offset = message.partition(), message.offset()  # pyright: ignore[reportAttributeAccessIssue]
        first, last = self.places.get(partition, (offset, offset))
        self.places[partition] = min(first, offset), max(last, offset)
        self.count += 1


def refusal(error: KafkaException, sink: TopicSink) -> Exception:
    """Translate an error of the producer."""
    from confluent_kafka import KafkaError

    found = error.args[0]
    if found.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
        return SinkFencedError(
            f"topic '{sink.topic}': another process has begun to write it for '{sink.node.name}', and goes on; what "
            "this one had not committed is not in the topic",
            topic=sink.topic,
        )
    again = "what it has of them is asked when the next run goes on: run again"
    return DeliveryFailedError(
        f"topic '{sink.topic}': the broker that RIVERMEET_KAFKA names did not take its rows ({found.name()}); "
        f"{_CURES.get(found.name(), again)}",
        topic=sink.topic,
    )
