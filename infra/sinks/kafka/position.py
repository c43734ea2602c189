"""The topics of a sink: the one that it writes, and one for its position, written in the transaction of the rows.

    topic trips            a, b, c            one transaction
    topic trips-positions  {"epoch": 3, …}    the same one: one partition, compacted

    to_topic("trips", partitions=4)           both are created if they do not exist, trips with 4 partitions
    to_topic("trips")                         refused if trips does not exist: its number of partitions is unknown

A kill between two steps leaves either both or neither. The position is read after older transactions of the same writer
were aborted, and only from committed records. It is not stored as a group's offset, because those expire. Held by
``tests/infra/sinks/test_delivery.py``.
"""

from __future__ import annotations

from itertools import chain

from pydantic import BaseModel

from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.kafka.connection import Connection
from rivermeet.infra.kafka.refusals import TopicMissingError
from rivermeet.infra.kafka.topics import KEEPS_ALL, make_topic
from rivermeet.infra.sinks.kafka.refusals import SinkTopicMissingError
from rivermeet.infra.sources.kafka.consume import consume_slice
from rivermeet.infra.sources.kafka.topic import topic_id, topic_state
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines.sink import TopicSink


class Position(BaseModel, frozen=True):
    """The part of a changelog that a topic has: rows up to ``ends``, the last of them of ``epoch``.

    A recreated topic has another ``topic_id``; it is empty in positions that were written without it. ``records`` is
    the number of delivered rows, as acknowledged by the broker, and ``written`` the place of those of the last
    transaction: partition of the topic to first and last offset.
    """

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
    """The last committed position of a writer, which is the key of its records; None if it never wrote."""
    name = positions_topic(topic)
    state = topic_state(connection, name)
    planned = TopicSlice(topic=name, id=state.id, ranges={0: (state.low[0], state.stable[0])})
    found = None
    for message in chain.from_iterable(consume_slice(connection, planned, topic)):
        if message.key() == writer.encode():
            found = message.value()
    return Position.model_validate_json(found) if found is not None else None


def prepare(connection: Connection, sink: TopicSink) -> None:
    """Create the topics of a sink that do not exist.

    Raises `SinkTopicMissingError` if the sink does not declare its number of partitions.
    """
    if not _is_there(connection, sink.topic):
        if sink.partitions is None:
            name = f"{sink.node.pipeline.name}.{sink.node.name}"
            raise SinkTopicMissingError(
                f"'{name}' is written to topic '{sink.topic}', and there is none: make it, or declare "
                f"to_topic({sink.topic!r}, partitions=N)",
                topic=sink.topic,
            )
        make_topic(connection, sink.topic, sink.partitions, KEEPS_ALL)
    positions = positions_topic(sink.topic)
    if not _is_there(connection, positions):
        make_topic(connection, positions, 1, {"cleanup.policy": "compact"})


def _is_there(connection: Connection, topic: str) -> bool:
    try:
        topic_id(connection, topic)
    except TopicMissingError:
        return False
    return True
