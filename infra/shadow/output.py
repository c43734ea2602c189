"""The output topic of an application: all its committed records, landed in files and decoded as a source's are.

    partition 0: a {"n": 1} at offset 0, an aborted transaction, a (no value) at offset 4     two rows
    partition 1: b "x" at offset 0                                        none: it is not one JSON object

It is read from the low watermark to the last stable offset, a chunk in memory at a time
(``infra/sources/kafka/landing.py``), and removed when it was compared. What compaction or retention took is not there
to be compared; of a table the last record of each key is enough. Held by ``tests/assets/shadow/test_tables.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.infra.kafka.connection import Connection
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.sources.kafka.consume import consume_slice
from rivermeet.infra.sources.kafka.decoding import decoders_of
from rivermeet.infra.sources.kafka.landing import Landing, build_rows, landing_of
from rivermeet.infra.sources.kafka.rows import landed_rows
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.infra.sources.row_to_record import to_records
from rivermeet.pipelines import Expr, Kafka, Source
from rivermeet.pipelines.expressions import quote


@dataclass(frozen=True)
class Output:
    """An output topic that has landed: the slice that was read of it, and how many records that were."""

    slice: TopicSlice
    landing: Landing
    records: int


def stable_slice(connection: Connection, topic: str) -> TopicSlice:
    """All that a reader of committed records finds in a topic now."""
    state = topic_state(connection, topic)
    ranges = {p: (state.low[p], max(state.stable[p], state.low[p])) for p in sorted(state.low)}
    return TopicSlice(topic=topic, id=state.id, ranges=ranges, high=dict(state.high))


@contextmanager
def landed(
    connection: Connection, registry: Registry, topic: Kafka, planned: TopicSlice, folder: Path, name: str
) -> Iterator[Output]:
    """A slice of the topic in files, as long as the block lasts; raises `TopicRefusedError` if it cannot be read.

    What an earlier one left in the folder is removed. ``name`` is the node's, as ``PIPELINE.NODE``.
    """
    landing = Landing.create(folder, 0)
    try:
        messages = consume_slice(connection, planned, name)
        count = landing.write(build_rows(messages, planned, landing_of(topic, decoders_of(topic, registry))))
        yield Output(planned, landing, count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def decoded(landed: DataFrame, topic: Kafka, key: Mapping[str, str], value: Mapping[str, str]) -> DataFrame:
    """Landed records with a node's columns, which ``key`` and ``value`` give with their types.

    A format of one column gives the node's one, whatever its name. The result has ``key``, ``value`` (NULL: a
    tombstone), ``timestamp`` (ms), ``partition``, ``offset`` (Kafka's), and ``reason``: why a record cannot be decoded.
    """
    source = Source(
        topic,
        key=_named(topic.key_columns, key),
        value=_named(topic.value_columns, value),
        timestamp="kafka_timestamp",
        tombstone="kafka_tombstone",
        not_before=None,
    )
    found = to_records(landed_rows(landed, topic), source, "kafka_partition")
    return found.select("key", "value", "timestamp", "partition", F.col("line").alias("offset"), "reason")


def _named(columns: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, Expr]:
    if len(wanted) == 1 == len(columns):
        ((name, kind),) = wanted.items()
        return {name: Expr(quote(next(iter(columns))), kind)}
    return {name: Expr(quote(name), kind) for name, kind in wanted.items()}
