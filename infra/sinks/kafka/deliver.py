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

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra import crash
from infra.delta.io import last_note
from infra.kafka.avro_types import TypeWithoutFormError
from infra.sinks.kafka.messages import Message, messages
from infra.sinks.kafka.parts import MOST, Part, committed_since, parts
from infra.sinks.kafka.position import Position, last_position, positions_topic
from infra.sinks.kafka.refusals import DeliveryFailedError, SinkFencedError, SinkRebuiltError, SinkRefusedError
from infra.sinks.kafka.topics import prepare
from infra.sources.kafka.connection import SECONDS
from infra.sources.kafka.registry import NONE, Registry

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Producer
    from pyspark.sql import SparkSession

    from infra.sources.kafka.connection import Connection
    from pipelines.sink import TopicSink

COMMIT_SECONDS = 120.0


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
    most: int = MOST,
    registry: Registry = NONE,
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
    before = _position(connection, sink, writer, note.incarnation)
    if not any(parts(before, committed_since(changelog, before), most)):
        # What is committed is all there is to send, whatever an older process has left open: nobody is fenced for it.
        return Delivered(before, before)
    producer = connection.producer(writer)
    try:
        # Whoever wrote before is fenced, and what it left open is ended: only then is the position the last one.
        producer.init_transactions(SECONDS)
        before = _position(connection, sink, writer, note.incarnation)
        at, written = before, list[Position]()
        for part in parts(before, committed_since(changelog, before), most):
            rows = messages(sink, part.read(changelog, version, session), registry)
            at = _send(producer, sink, writer, part, rows, at)
            written.append(at)
        return Delivered(before, at, written)
    except KafkaException as error:
        raise _refusal(error, sink) from None
    except TypeWithoutFormError as error:
        raise SinkRefusedError(f"topic '{sink.topic}': {error}; leave the column out, cast it, or write JSON") from None


def _position(connection: Connection, sink: TopicSink, writer: str, incarnation: int) -> Position:
    """The topic's position; refused where its node was rebuilt since."""
    position = last_position(connection, sink.topic, writer) or Position(incarnation=incarnation)
    if position.incarnation != incarnation:
        name = f"{sink.node.pipeline.name}.{sink.node.name}"
        raise SinkRebuiltError(
            f"'{name}' was rebuilt: topic '{sink.topic}' has the rows of the changelog that was replaced, and they "
            "cannot be taken back; declare another topic for the new ones"
        )
    return position


def _send(
    producer: Producer, sink: TopicSink, writer: str, part: Part, rows: Iterable[Message], before: Position
) -> Position:
    """Send a part and its position in one transaction; the position."""
    from confluent_kafka import KafkaException

    acknowledged = _Acknowledged()
    producer.begin_transaction()
    try:
        for row in rows:
            _produce(producer, sink.topic, row, acknowledged)
        crash.reached("sending", sink.node.name)
        if producer.flush(COMMIT_SECONDS) or acknowledged.failed or acknowledged.count != part.rows:
            why = ", ".join(sorted(acknowledged.failed)) or "too slow"
            raise DeliveryFailedError(
                f"topic '{sink.topic}': the broker took {acknowledged.count:,} of {part.rows:,} rows of epoch "
                f"{part.epoch} ({why}); none of them is committed: run again"
            )
        position = Position(
            incarnation=before.incarnation,
            epoch=part.epoch,
            ends=before.ends | part.upto,
            records=before.records + acknowledged.count,
            written=acknowledged.places,
        )
        producer.produce(positions_topic(sink.topic), position.model_dump_json(), writer)
        crash.reached("marked", sink.node.name)
    except BaseException:
        # A writer that is fenced cannot: who fenced it has ended its transaction.
        with suppress(KafkaException):
            producer.abort_transaction(SECONDS)
        raise
    producer.commit_transaction(COMMIT_SECONDS)
    crash.reached("delivered", sink.node.name)
    return position


def _produce(producer: Producer, topic: str, row: Message, acknowledged: _Acknowledged) -> None:
    while True:
        try:
            producer.produce(
                topic,
                row.value,
                row.key,
                timestamp=row.timestamp,
                headers=row.headers,  # pyright: ignore[reportArgumentType]
                on_delivery=acknowledged.one,
            )
            producer.poll(0)
            return
        except BufferError:
            # The queue is full: what is acknowledged makes room.
            producer.poll(0.1)


class _Acknowledged:
    """What the broker says of records, one by one."""

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


def _refusal(error: KafkaException, sink: TopicSink) -> Exception:
    from confluent_kafka import KafkaError

    found = error.args[0]
    if found.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
        return SinkFencedError(
            f"topic '{sink.topic}': another process has begun to write it for '{sink.node.name}', and goes on; what "
            "this one had not committed is not in the topic"
        )
    return DeliveryFailedError(
        f"topic '{sink.topic}': the broker that RIVERMEET_KAFKA names did not take its rows ({found.name()}); what it "
        "has of them is asked when the next run goes on: run again"
    )
