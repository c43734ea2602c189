"""Delivery: sends rows of a changelog that a topic does not have yet, each part in one transaction with its position.

| killed | the topic |
|---|---|
| before the commit | has none of the part's rows, for readers of committed records: the next run sends them again |
| after the commit | has them, and their position: the next run continues after them |
| while another process writes | has the rows of that one: the older one is fenced, and its transaction aborted |

If the response to a commit is lost, the position is read again. Delivered rows are read back like by any reader of
committed records; others may write to the topic at the same time, so only records with the node's header count. Held by
``tests/infra/sinks/test_delivery.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rivermeet.infra.delta.io import last_note
from rivermeet.infra.kafka.connection import Connection
from rivermeet.infra.kafka.formats.registry import NONE, Registry
from rivermeet.infra.kafka.refusals import TypeWithoutFormError
from rivermeet.infra.sinks.kafka.messages import NODE, messages
from rivermeet.infra.sinks.kafka.parts import parts, read_notes_since
from rivermeet.infra.sinks.kafka.position import Position, last_position, positions_topic, prepare
from rivermeet.infra.sinks.kafka.producing import refusal, send
from rivermeet.infra.sinks.kafka.refusals import (
    SinkPositionLostError,
    SinkRebuiltError,
    SinkRefusedError,
    SinkTopicRemadeError,
)
from rivermeet.infra.sources.kafka.consume import consume_slice
from rivermeet.infra.sources.kafka.topic import topic_id, topic_state
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import limits
from rivermeet.pipelines.sink import TopicSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Delivered:
    """The result of a delivery: the topic's positions before and after it.

    ``written`` has of each part its epoch and the place of its rows: partition of the topic to first and last offset.
    """

    before: Position
    position: Position
    written: Sequence[Position] = ()

    @property
    def rows(self) -> int:
        """How many rows were delivered."""
        return self.position.records - self.before.records


def deliver(
    sink: TopicSink,
    changelog: str,
    connection: Connection,
    session: Callable[[], SparkSession],
    most: int = limits.TRANSACTION_ROWS,
    registry: Registry = NONE,
    known: int = 0,
) -> Delivered | None:
    """Deliver the rows that a topic does not have yet; None if its node has no changelog.

    ``session`` opens one for changelogs that Delta has to read; a transaction has ``most`` rows. ``known`` is an epoch
    of the changelog's incarnation that was delivered, according to the epoch log; 0: none. Raises `SinkRefusedError` if
    rows cannot be delivered.
    """
    from confluent_kafka import KafkaException

    newest = last_note(changelog)
    if newest is None:
        return None
    version, note = newest
    prepare(connection, sink)
    writer = f"rivermeet.{sink.node.pipeline.name}.{sink.id}"
    before = _position(connection, sink, writer, note.incarnation, known)
    if not any(parts(before, read_notes_since(changelog, before), most)):
        # All epochs are delivered, whatever an older process has left open: no other process need be fenced.
        return Delivered(before, before)
    producer = connection.producer(writer)
    try:
        # The previous writer is fenced, and its open transaction aborted: only then is the position the last one.
        producer.init_transactions(limits.BROKER_SECONDS)
        before = _position(connection, sink, writer, note.incarnation, known)
        at, written = before, list[Position]()
        for part in parts(before, read_notes_since(changelog, before), most):
            rows = messages(sink, part.read(changelog, version, session), registry)
            at = send(producer, sink, writer, part, rows, at)
            written.append(at)
        return Delivered(before, at, written)
    except KafkaException as error:
        raise refusal(error, sink) from None
    except TypeWithoutFormError as error:
        raise SinkRefusedError(
            f"topic '{sink.topic}': {error}; leave the column out, cast it, or write JSON", topic=sink.topic
        ) from None


def _position(connection: Connection, sink: TopicSink, writer: str, incarnation: int, known: int) -> Position:
    """The topic's position; refused if rows before it are missing in the topic, or were replaced in the node."""
    state = topic_state(connection, sink.topic)
    position = last_position(connection, sink.topic, writer) or Position(incarnation=incarnation, topic_id=state.id)
    name = f"{sink.node.pipeline.name}.{sink.node.name}"
    if position.incarnation != incarnation:
        raise SinkRebuiltError(
            f"'{name}' was rebuilt: topic '{sink.topic}' has the rows of the changelog that was replaced, and they "
            "cannot be taken back; declare another topic for the new ones",
            topic=sink.topic,
        )
    # In a topic without any records, no row can be delivered twice.
    if position.epoch < known and any(state.high.values()):
        raise SinkPositionLostError(
            f"'{name}' was delivered to topic '{sink.topic}' up to epoch {known}, and topic "
            f"'{positions_topic(sink.topic)}' says {position.epoch or 'nothing'}: its records are lost, and to go on "
            "would deliver rows twice; declare another topic, or delete both, and all rows are delivered again",
            topic=sink.topic,
        )
    if position.topic_id not in ("", state.id):
        raise SinkTopicRemadeError(
            f"'{name}' is written to topic '{sink.topic}', which was deleted and recreated: the rows up to epoch "
            f"{position.epoch} are not in it; delete topic '{positions_topic(sink.topic)}', too, and all rows are "
            "delivered again, or declare another topic",
            topic=sink.topic,
        )
    return position


def read_back(connection: Connection, sink: TopicSink, written: Sequence[Position]) -> int:
    """The number of a sink's rows that are found at their place in the topic."""
    id, _ = topic_id(connection, sink.topic)
    found, name = 0, f"{sink.node.pipeline.name}.{sink.node.name}"
    for part in written:
        ranges = {p: (first, last + 1) for p, (first, last) in part.written.items()}
        planned = TopicSlice(topic=sink.topic, id=id, ranges=ranges)
        for message in chain.from_iterable(consume_slice(connection, planned, name)):
            found += (NODE, sink.node.name.encode()) in (message.headers() or ())
    return found
