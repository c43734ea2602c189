"""The topics of a sink: the one that it writes, and one for its position, written in the transaction of the rows.

    topic trips            a, b, c            one transaction
    topic trips-positions  {"epoch": 3, …}    the same one: one partition, compacted

    to_topic("trips", partitions=4)           both are created if they do not exist, trips with 4 partitions
    to_topic("trips")                         refused if trips does not exist: its number of partitions is unknown

A kill between two steps leaves either both or neither. The position is read after older transactions of the same writer
were aborted, and only from committed records. It is not stored as a group's offset, because those expire.

The parts of a delivery after a position are the rows of an epoch, or, of a large one, as many as fit one transaction.

    position                partition 0 up to 4, partition 1 up to 9
    epoch 3 ends at         partition 0: 6, partition 1: 9      one part: partition 0, offsets 5 and 6
    epoch 4 ends at         partition 0: 250,006, …             three parts of at most 100,000 rows

A part is a range of dense offsets: it does not depend on the files that contain its rows, nor on whether maintenance
rewrites them. Held by ``tests/infra/sinks/test_delivery.py`` and ``tests/infra/sinks/test_parts.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pydantic import BaseModel
from pyspark.sql import SparkSession

from rivermeet.infra.commit_note import CommitNote, Offsets
from rivermeet.infra.delta.changelog_files import part_rows
from rivermeet.infra.delta.io import notes
from rivermeet.infra.kafka.connection import KEEPS_ALL, Connection, make_topic
from rivermeet.infra.kafka.refusals import TopicMissingError
from rivermeet.infra.sinks.kafka.messages import COLUMNS
from rivermeet.infra.sinks.kafka.refusals import SinkTopicMissingError
from rivermeet.infra.sources.kafka.consume import consume_slice
from rivermeet.infra.sources.kafka.topic import topic_id, topic_state
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import limits
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


@dataclass(frozen=True)
class Part:
    """Rows ``(after, upto]`` of a changelog, by partition, up to ``epoch``."""

    epoch: int
    after: Offsets
    upto: Offsets

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(end - self.after.get(p, -1) for p, end in self.upto.items())

    def read(self, changelog: str, version: int, session: Callable[[], SparkSession]) -> pa.Table:
        """The rows, by partition and offset."""
        found = part_rows(session, changelog, self.after, self.upto, version, COLUMNS)
        return found.sort_by([("partition", "ascending"), ("offset", "ascending")])


def parts(position: Position, committed: Sequence[CommitNote], most: int = limits.TRANSACTION_ROWS) -> Iterator[Part]:
    """The parts after a position, up to the last of the epochs that were ``committed`` since, oldest first."""
    done: dict[int, int] = dict(position.ends)
    for note in committed:
        yield from _of_epoch(note, done, most)
        done |= note.ends


def _of_epoch(note: CommitNote, done: Mapping[int, int], most: int) -> Iterator[Part]:
    after: dict[int, int] = dict(done)
    upto: dict[int, int] = {}
    room = most
    for partition, end in sorted(note.ends.items()):
        start = after.get(partition, -1)
        while start < end:
            taken = min(room, end - start)
            start, room = start + taken, room - taken
            upto[partition] = start
            if not room:
                yield Part(note.epoch, dict(after), upto)
                after, upto, room = after | upto, {}, most
    if upto:
        yield Part(note.epoch, dict(after), upto)


def read_notes_since(changelog: str, position: Position) -> list[CommitNote]:
    """Notes of the epochs of a changelog from a position on, oldest first.

    The position's own epoch is among them: a part of it may be missing.
    """
    found: list[CommitNote] = []
    for _, note in notes(changelog):
        if note.epoch < position.epoch or note.incarnation != position.incarnation:
            break
        found.append(note)
    return found[::-1]
