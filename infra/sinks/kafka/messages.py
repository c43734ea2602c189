"""Rows of a changelog as records of a topic.

    key {id: a}, value {n: 1}, timestamp 1000, epoch 3     key a, value {"n": 1}, timestamp 1000
                                                           headers rivermeet-node trips, rivermeet-epoch 3
    the same with value null                               no value
    trigger {side: left, partition: 0, offset: 7}          header rivermeet-trigger {"side": "left", …}

Kafka has no time before 1970: such a record gets time 0, and its own in the header ``rivermeet-timestamp``. Held by
``tests/infra/sinks/test_messages.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from rivermeet.infra.kafka.formats.codecs import JAVA, Encode, value_encoder
from rivermeet.infra.kafka.formats.framing import as_json
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.pipelines import JSON, Number
from rivermeet.pipelines.sink import TopicSink

NODE, EPOCH, TRIGGER, TIMESTAMP = (f"rivermeet-{name}" for name in ("node", "epoch", "trigger", "timestamp"))
"""Headers of each record."""
COLUMNS = ("key", "value", "timestamp", "partition", "offset", "epoch", "trigger")
"""Columns of a changelog that a record is built from; not every changelog has a trigger."""


class Message(NamedTuple):
    """A record to be sent; times in epoch millis."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes]]


def messages(sink: TopicSink, rows: pa.Table, registry: Registry) -> Iterator[Message]:
    """The records of rows, in their order."""
    key_of, node = _key_encoder(sink), sink.node.name.encode()
    value_of = value_encoder(sink.value, sink.topic, list(rows.schema.field("value").type), registry)
    # A batch at a time: a table as Python objects takes ten times its size.
    for batch in rows.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            yield _message(row, key_of, value_of, node)


def _message(row: Mapping[str, Any], key_of: Encode, value_of: Encode, node: bytes) -> Message:
    headers = [(NODE, node), (EPOCH, str(row["epoch"]).encode())]
    if row.get("trigger") is not None:
        headers.append((TRIGGER, as_json(row["trigger"]).encode()))
    if row["timestamp"] < 0:
        headers.append((TIMESTAMP, str(row["timestamp"]).encode()))
    key, value = row["key"], row["value"]
    return Message(
        None if key is None else key_of(key),
        None if value is None else value_of(value),
        max(row["timestamp"], 0),
        headers,
    )


def _key_encoder(sink: TopicSink) -> Encode:
    if isinstance(sink.key, JSON):
        return lambda key: as_json(key).encode()
    (column,) = sink.node.key
    if isinstance(sink.key, Number):
        layout = JAVA[sink.key.type.upper()]
        return lambda key: struct.pack(layout, key[column])
    return lambda key: key[column] if isinstance(key[column], bytes) else key[column].encode()
