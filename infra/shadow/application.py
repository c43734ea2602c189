"""What is read of a running Kafka Streams application: how far it has read, and its output topic.

Its consumer group says how far it has read: of the topics that we read, and of its own.

| topic | committed | stable end | the application |
|---|---|---|---|
| orders, partition 0 | 90 | 100 | has not read the records from 90 on: what they cause cannot be in its output yet |
| orders, partition 1 | none | 40 | has read nothing of it |
| shop-app-KTABLE-FK-JOIN-… | 7 | 9 | has answers on their way: two records of its own wait |

The id of an application is that of its group. Its topics are all those that the group has offsets of.

Of the output topic, all committed records land in files and are decoded as a source's are:

    partition 0: a {"n": 1} at offset 0, an aborted transaction, a (no value) at offset 4     two rows
    partition 1: b "x" at offset 0                                        none: it is not one JSON object

It is read from the low watermark to the last stable offset, a chunk in memory at a time
(``infra/sources/kafka/landing.py``), and removed when it was compared. What compaction or retention took is not there
to be compared; of a table the last record of each key is enough. Held by ``tests/assets/shadow/test_progress.py`` and
``tests/assets/shadow/test_tables.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.infra.kafka.connection import Connection, unavailable
from rivermeet.infra.kafka.formats.codecs import decoders_of
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.kafka.refusals import TopicMissingError, TopicRefusedError
from rivermeet.infra.sources.kafka.consume import consume_slice
from rivermeet.infra.sources.kafka.landing import SCHEMA, build_rows, landing_of
from rivermeet.infra.sources.kafka.rows import decode_landed
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.infra.sources.landing_folder import LandingFolder
from rivermeet.infra.sources.row_to_record import to_records
from rivermeet.pipelines import Expr, Kafka, Source, limits
from rivermeet.pipelines.expressions import quote


class GroupMissingError(TopicRefusedError):
    """The application has no group, or the group has committed nothing."""

    remedy = "Give the application.id of the application, or leave the group out."


@dataclass(frozen=True)
class Progress:
    """Offsets that an application has committed: of each topic and partition the one that is read next.

    ``waiting`` counts the records of its own topics that are not read, by topic.
    """

    group: str
    committed: Mapping[str, Mapping[int, int]]
    waiting: Mapping[str, int] = field(default_factory=dict)

    def upto(self, topic: str, partition: int) -> int:
        """The offset of a topic's partition up to which it has read; 0 where it has not begun."""
        return self.committed.get(topic, {}).get(partition, 0)


def progress(connection: Connection, group: str, inputs: frozenset[str]) -> Progress:
    """What the group has committed; raises `GroupMissingError` if there is no such group.

    ``inputs`` are topics that are not the application's own: its lag in them is no answer on its way.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

    try:
        asked = connection.admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=limits.BROKER_SECONDS
        )
        answer = asked[group].result()
    except KafkaException as error:
        raise unavailable(error.args[0], group, connection, "group") from None
    committed: dict[str, dict[int, int]] = {}
    for place in answer.topic_partitions or ():
        if place.offset >= 0:
            committed.setdefault(place.topic, {})[place.partition] = place.offset
    if not committed:
        raise GroupMissingError(
            f"group '{group}' has committed no offsets: --group is the application's id (application.id), and its "
            "group has to be there; without --group its position is unknown",
            group=group,
        )
    return Progress(group, committed, _count_waiting(connection, committed, inputs))


def _count_waiting(
    connection: Connection, committed: Mapping[str, Mapping[int, int]], inputs: frozenset[str]
) -> dict[str, int]:
    found: dict[str, int] = {}
    for topic in committed.keys() - inputs:
        try:
            state = topic_state(connection, topic)
        except TopicMissingError:
            continue
        starts = {p: max(committed[topic].get(p, 0), low) for p, low in state.low.items()}
        ranges = {p: (start, end) for p, start in starts.items() if (end := state.stable[p]) > start}
        planned = TopicSlice(topic=topic, id=state.id, ranges=ranges)
        # Where the last offset is the end of a transaction, there may be no record.
        is_long = planned.records > limits.LAG_OFFSETS
        if count := planned.records if is_long else sum(map(len, consume_slice(connection, planned, topic))):
            found[topic] = count
    return found


@dataclass(frozen=True)
class Output:
    """An output topic that has landed: the slice that was read of it, and how many records that were."""

    slice: TopicSlice
    landing: LandingFolder
    records: int


def stable_slice(connection: Connection, topic: str) -> TopicSlice:
    """All that a reader of committed records finds in a topic now."""
    state = topic_state(connection, topic)
    ranges = {p: (state.low[p], max(state.stable[p], state.low[p])) for p in sorted(state.low)}
    return TopicSlice(topic=topic, id=state.id, ranges=ranges, high=dict(state.high))


@contextmanager
def land(
    connection: Connection, registry: Registry, topic: Kafka, planned: TopicSlice, folder: Path, name: str
) -> Iterator[Output]:
    """A slice of the topic in files, as long as the block lasts; raises `TopicRefusedError` if it cannot be read.

    What an earlier one left in the folder is removed. ``name`` is the node's, as ``PIPELINE.NODE``.
    """
    landing = LandingFolder.create(folder, 0, SCHEMA)
    try:
        messages = consume_slice(connection, planned, name)
        count = landing.write(build_rows(messages, planned, landing_of(topic, decoders_of(topic, registry))))
        yield Output(planned, landing, count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def decode(landed: DataFrame, topic: Kafka, key: Mapping[str, str], value: Mapping[str, str]) -> DataFrame:
    """Landed records with a node's columns, which ``key`` and ``value`` give with their types.

    A format of one column gives the node's one, whatever its name. The result has ``key``, ``value`` (NULL: a
    tombstone), ``timestamp`` (ms), ``partition``, ``offset`` (Kafka's), and ``reason``: why a record cannot be decoded.
    """
    source = Source(
        topic,
        key=_map_columns(topic.key_columns, key),
        value=_map_columns(topic.value_columns, value),
        timestamp="kafka_timestamp",
        tombstone="kafka_tombstone",
        not_before=None,
    )
    found = to_records(decode_landed(landed, topic), source, "kafka_partition")
    return found.select("key", "value", "timestamp", "partition", F.col("line").alias("offset"), "reason")


def _map_columns(columns: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, Expr]:
    if len(wanted) == 1 == len(columns):
        ((name, kind),) = wanted.items()
        return {name: Expr(quote(next(iter(columns))), kind)}
    return {name: Expr(quote(name), kind) for name, kind in wanted.items()}
