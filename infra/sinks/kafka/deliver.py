"""Delivery: rows of a changelog that a topic does not have yet, each part in one transaction with its position.

| killed | the topic |
|---|---|
| before the commit | has none of the part's rows, for readers of committed records: the next run sends them again |
| after the commit | has them, and their position: the next run goes on behind them |
| while another process writes | has what that one writes: the older one is fenced, and its transaction ended |

The answer to a commit can be lost: then the position is asked for again, and nothing is guessed. Held by
``tests/infra/sinks/test_delivery.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivermeet.infra.delta.io import last_note
from rivermeet.infra.kafka.avro_types import TypeWithoutFormError
from rivermeet.infra.kafka.formats.registry import NONE, Registry
from rivermeet.infra.sinks.kafka.messages import messages
from rivermeet.infra.sinks.kafka.parts import committed_since, parts
from rivermeet.infra.sinks.kafka.position import Position, last_position, positions_topic
from rivermeet.infra.sinks.kafka.producing import refusal, send
from rivermeet.infra.sinks.kafka.refusals import (
    SinkPositionLostError,
    SinkRebuiltError,
    SinkRefusedError,
    SinkTopicRemadeError,
)
from rivermeet.infra.sinks.kafka.topics import prepare
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.pipelines import limits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermeet.infra.kafka.connection import Connection
    from rivermeet.pipelines.sink import TopicSink


@dataclass(frozen=True)
class Delivered:
    """What a delivery came to.

    Attributes
    ----------
    before, position
        The topic's positions.
    written
        Of each part its epoch and where its rows lie: partition of the topic to first and last offset.
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
    """Deliver what a topic does not have yet; None where its node has no changelog.

    Parameters
    ----------
    session
        Gives the session for changelogs that Delta has to read.
    most
        Rows of a transaction.
    registry
        Takes the schemas of what is written in Avro or Protobuf.
    known
        An epoch of the changelog's incarnation that was delivered, as the epoch log has it; 0: it has none.

    Raises
    ------
    SinkRefusedError
        Where rows cannot be delivered.
    """
    from confluent_kafka import KafkaException

    newest = last_note(changelog)
    if newest is None:
        return None
    version, note = newest
    prepare(connection, sink)
    writer = f"rivermeet.{sink.node.pipeline.name}.{sink.id}"
    before = _position(connection, sink, writer, note.incarnation, known)
    if not any(parts(before, committed_since(changelog, before), most)):
        # What is committed is all there is to send, whatever an older process has left open: nobody is fenced for it.
        return Delivered(before, before)
    producer = connection.producer(writer)
    try:
        # Whoever wrote before is fenced, and what it left open is ended: only then is the position the last one.
        producer.init_transactions(limits.BROKER_SECONDS)
        before = _position(connection, sink, writer, note.incarnation, known)
        at, written = before, list[Position]()
        for part in parts(before, committed_since(changelog, before), most):
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
    """The topic's position; refused where what was delivered up to it is not in the topic, or no more in the node."""
    state = topic_state(connection, sink.topic)
    position = last_position(connection, sink.topic, writer) or Position(incarnation=incarnation, topic_id=state.id)
    name = f"{sink.node.pipeline.name}.{sink.node.name}"
    if position.incarnation != incarnation:
        raise SinkRebuiltError(
            f"'{name}' was rebuilt: topic '{sink.topic}' has the rows of the changelog that was replaced, and they "
            "cannot be taken back; declare another topic for the new ones",
            topic=sink.topic,
        )
    # Into a topic that nothing was ever written to, nothing is delivered twice.
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
