"""Reads back delivered rows, like any reader of committed records.

    delivered    epoch 3: 2 rows, in partition 0 from offset 4 to 5
    read back    offsets 4 and 5, both with the headers of the node and of an epoch up to 3: 2 rows

Others may write to the topic at the same time: only records with the node's header count. Held by
``tests/infra/sinks/test_delivery.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from rivermeet.infra.sinks.kafka.messages import NODE
from rivermeet.infra.sinks.kafka.position import Position
from rivermeet.infra.sources.kafka.consume import consume_slice
from rivermeet.infra.sources.kafka.topic import topic_id
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice

if TYPE_CHECKING:
    from rivermeet.infra.kafka.connection import Connection
    from rivermeet.pipelines.sink import TopicSink


def read_back(connection: Connection, sink: TopicSink, written: Sequence[Position]) -> int:
    """The number of a sink's rows that are found at their place in the topic."""
    id, _ = topic_id(connection, sink.topic)
    found, name = 0, f"{sink.node.pipeline.name}.{sink.node.name}"
    for part in written:
        ranges = {p: (first, last + 1) for p, (first, last) in part.written.items()}
        planned = TopicSlice(topic=sink.topic, id=id, ranges=ranges, high={}, added=(), lost={})
        for message in chain.from_iterable(consume_slice(connection, planned, name)):
            found += (NODE, sink.node.name.encode()) in (message.headers() or ())
    return found
