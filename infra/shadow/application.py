"""How far an application has read, as its consumer group says: of the topics that we read, and of its own.

| topic | committed | stable end | the application |
|---|---|---|---|
| orders, partition 0 | 90 | 100 | has not read the records from 90 on: what they cause cannot be in its output yet |
| orders, partition 1 | none | 40 | has read nothing of it |
| shop-app-KTABLE-FK-JOIN-… | 7 | 9 | has answers on their way: two records of its own wait |

The id of an application is that of its group. Its topics are all those that the group has offsets of. Held by
``tests/assets/shadow/test_progress.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rivermeet.infra.kafka.connection import Connection, unavailable
from rivermeet.infra.kafka.refusals import TopicMissingError, TopicRefusedError
from rivermeet.infra.sources.kafka.consume import consume_slice
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import limits


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
    return Progress(group, committed, _waiting(connection, committed, inputs))


def _waiting(
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
        count = _records(connection, TopicSlice(topic=topic, id=state.id, ranges=ranges))
        if count:
            found[topic] = count
    return found


def _records(connection: Connection, behind: TopicSlice) -> int:
    """How many records lie in a slice: where the last offset is the end of a transaction, there may be none."""
    if behind.records > limits.LAG_OFFSETS:
        return behind.records
    return sum(map(len, consume_slice(connection, behind, behind.topic)))
