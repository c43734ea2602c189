"""The position of a delivery: a record in a separate topic, written in the transaction that writes the rows.

    topic trips            a, b, c            one transaction
    topic trips-positions  {"epoch": 3, …}    the same one

A kill between two steps leaves either both or neither. The position is read after older transactions of the same writer
were aborted, and only from committed records. It is not stored as a group's offset, because those expire. Held by
``tests/infra/sinks/test_delivery.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.sinks.kafka.refusals import DeliveryFailedError
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.pipelines import limits

if TYPE_CHECKING:
    from rivermeet.infra.kafka.connection import Connection


class Position(BaseModel):
    """The part of a changelog that a topic has.

    Attributes
    ----------
    incarnation
        The incarnation of the changelog.
    topic_id
        The topic's id, which a recreated topic does not have; empty in positions that were written without it.
    epoch
        The last epoch with rows in the topic.
    ends
        Partition of the changelog to its last offset that was delivered.
    records
        Number of delivered rows, as acknowledged by the broker.
    written
        Place of the rows of the last transaction: partition of the topic to first and last offset.
    """

    model_config = ConfigDict(frozen=True)

    incarnation: int = 1
    topic_id: str = ""
    epoch: int = 0
    ends: Offsets = {}
    records: int = 0
    written: dict[int, tuple[int, int]] = {}


def positions_topic(topic: str) -> str:
    """Name of the topic of positions."""
    return f"{topic}-positions"


def last_position(connection: Connection, topic: str, writer: str) -> Position | None:
    """The last committed position of a writer; None if it never wrote.

    Parameters
    ----------
    writer
        Key of its records.
    """
    from confluent_kafka import TopicPartition

    name = positions_topic(topic)
    state = topic_state(connection, name)
    low, end, found = state.low[0], state.stable[0], None
    if low >= end:
        return None
    consumer = connection.consumer()
    try:
        place = TopicPartition(name, 0, low)
        consumer.assign([place])
        waited = 0.0
        while consumer.position([place])[0].offset < end:
            messages = consumer.consume(1000, 0.5)
            waited = 0.0 if messages else waited + 0.5
            if waited > limits.POSITION_SECONDS:
                raise DeliveryFailedError(
                    f"topic '{name}': the broker gave no record for {limits.POSITION_SECONDS:.0f} s; run again"
                )
            for message in messages:
                if message.error() is None and message.key() == writer.encode() and (message.offset() or 0) < end:
                    found = message.value()
    finally:
        consumer.close()
    return Position.model_validate_json(found) if found is not None else None
