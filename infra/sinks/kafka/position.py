"""How far a topic has a changelog: a record in a topic beside it, written in the transaction that writes the rows.

    topic trips            a, b, c            one transaction
    topic trips-positions  {"epoch": 3, …}    the same one

Whoever is killed between two steps finds either both or neither. The position is read after older transactions of the
same writer were ended, and only from what is committed. It is no group's offset: those expire. Held by
``tests/infra/sinks/test_delivery.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from rivermeet.infra.epochs.plan import Offsets
from rivermeet.infra.sinks.kafka.refusals import DeliveryFailedError
from rivermeet.infra.sources.kafka.topic import topic_state

if TYPE_CHECKING:
    from rivermeet.infra.sources.kafka.connection import Connection

SECONDS = 60.0
"""How long the broker may take to give the position."""


class Position(BaseModel):
    """What a topic has of a changelog.

    Attributes
    ----------
    incarnation
        Of the changelog.
    topic_id
        What distinguishes the topic from a later one of its name; empty of positions that were written without it.
    epoch
        The last epoch of which it has rows.
    ends
        Partition of the changelog to its last offset that was delivered.
    records
        How many rows were delivered, as the broker acknowledged them one by one.
    written
        Where the rows of the last transaction lie: partition of the topic to first and last offset.
    """

    model_config = ConfigDict(frozen=True)

    incarnation: int = 1
    topic_id: str = ""
    epoch: int = 0
    ends: Offsets = {}
    records: int = 0
    written: dict[int, tuple[int, int]] = {}


def positions_topic(topic: str) -> str:
    """Name of the topic that keeps positions."""
    return f"{topic}-positions"


def last_position(connection: Connection, topic: str, writer: str) -> Position | None:
    """The position that a writer has committed last; None where it never wrote.

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
            if waited > SECONDS:
                raise DeliveryFailedError(f"topic '{name}': the broker gave no record for {SECONDS:.0f} s; run again")
            for message in messages:
                if message.error() is None and message.key() == writer.encode() and (message.offset() or 0) < end:
                    found = message.value()
    finally:
        consumer.close()
    return Position.model_validate_json(found) if found is not None else None
