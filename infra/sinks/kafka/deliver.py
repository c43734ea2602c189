"""Delivery: sends rows of a changelog that a topic does not have yet, each part in one transaction with its position.

| killed | the topic |
|---|---|
| before the commit | has none of the part's rows, for readers of committed records: the next run sends them again |
| after the commit | has them, and their position: the next run continues after them |
| while another process writes | has the rows of that one: the older one is fenced, and its transaction aborted |

If the response to a commit is lost, the position is read again. Delivered rows are read back like by any reader of
committed records; others may write to the topic at the same time, so only records with the node's header count. A part
is sent in one transaction with the topic's position: all of it, or nothing that a reader of committed records sees.

    begin, row, row, row, position, commit      three rows and where they end
    begin, row, killed                          nothing: the next run aborts the transaction, and sends them again

Held by ``tests/infra/sinks/test_delivery.py`` and ``tests/infra/sinks/test_faults.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from rivermeet.infra import crash
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.kafka.connection import Connection
from rivermeet.infra.kafka.formats.registry import NONE, Registry
from rivermeet.infra.kafka.refusals import TypeWithoutFormError
from rivermeet.infra.sinks.kafka.messages import NODE, Message, messages
from rivermeet.infra.sinks.kafka.position import (
    Part,
    Position,
    last_position,
    parts,
    positions_topic,
    prepare,
    read_notes_since,
)
from rivermeet.infra.sinks.kafka.refusals import (
    DeliveryFailedError,
    SinkFencedError,
    SinkPositionLostError,
    SinkRebuiltError,
    SinkRefusedError,
    SinkTopicRemadeError,
)
from rivermeet.infra.sources.kafka.consume import consume_slice
from rivermeet.infra.sources.kafka.topic import topic_id, topic_state
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import limits
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.sink import TopicSink

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Producer


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
