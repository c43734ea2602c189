"""The topics of a sink: the one that it writes, and the one that keeps its positions.

    to_topic("trips", partitions=4)     created with 4 partitions if it does not exist
    to_topic("trips")                   refused if it does not exist: the number of partitions is unknown

The topic of positions is created with it: one partition, compacted. Held by ``tests/infra/sinks/test_delivery.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermeet.infra.kafka.refusals import TopicMissingError
from rivermeet.infra.kafka.topics import KEEPS_ALL, make_topic
from rivermeet.infra.sinks.kafka.position import positions_topic
from rivermeet.infra.sinks.kafka.refusals import SinkTopicMissingError
from rivermeet.infra.sources.kafka.topic import topic_id

if TYPE_CHECKING:
    from rivermeet.infra.kafka.connection import Connection
    from rivermeet.pipelines.sink import TopicSink


def prepare(connection: Connection, sink: TopicSink) -> None:
    """Create missing topics.

    Raises
    ------
    SinkTopicMissingError
        If the sink does not declare the number of partitions.
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
