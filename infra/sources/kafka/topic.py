"""The current state of a topic, its next slice, and why a slice can no longer be read.

    partition 0: records 0 … 11 read before, low watermark 0, stable end 14, high watermark 15

    next slice   [12, 14): 14 is held back by an open transaction
    refused      low watermark 13: record 12 was removed before it was read
    refused      stable end 9: records that were read are gone, and other records will get their offsets
    refused      another topic id: all offsets denote other records
    refused      stable end 14, but in a log that once ended at 9: the broker shows it by the leader epoch at 12

The slice is logged before it is read, and the position is the end of the last committed slice, never that
of a consumer group.

In joins of topics that keep their partitions equal keys meet only if both have the same number of partitions:

| left | right | the join |
|---|---|---|
| topic of 4 partitions | topic of 4 | is allowed: Kafka's default partitioner puts equal keys into equal partitions |
| topic of 4 | topic of 6 | is refused, naming both topics |
| topic of 4, then 6 by an increase | topic of 4 | is refused from then on |
| ``partitions=8`` declared | ``partitions=8`` declared | is allowed: both are rehashed |

A topic against files, or against a topic that is rehashed, is refused when it is declared. Held by
``tests/infra/sources/kafka/test_slices.py``, ``tests/infra/sources/test_faults.py`` and
``tests/infra/sources/kafka/test_joins.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.kafka.connection import Connection, topic_refusal
from rivermeet.infra.kafka.refusals import (
    EndWentBackError,
    NotCoPartitionedError,
    RecordsGoneError,
    TopicRefusedError,
    TopicRemadeError,
)
from rivermeet.infra.sources.kafka.topic_slice import PartitionLag, TopicSlice
from rivermeet.pipelines import Node, limits
from rivermeet.pipelines.plural import pluralize


@dataclass(frozen=True)
class TopicState:
    """A topic, and for each partition the first existing offset, the last stable one, and the last, plus one.

    ``newest`` is the newest timestamp (ms) of stable records, and ``leaders`` the leader epoch at their end, for
    partitions for which the broker reports it.
    """

    topic: str
    id: str
    low: Mapping[int, int]
    stable: Mapping[int, int]
    high: Mapping[int, int]
    newest: Mapping[int, int] = field(default_factory=dict)
    leaders: Mapping[int, int] = field(default_factory=dict)


def topic_id(connection: Connection, topic: str) -> tuple[str, list[int]]:
    """The id of a topic, and its partitions."""
    from confluent_kafka import KafkaException, TopicCollection

    try:
        described = connection.admin.describe_topics(TopicCollection([topic]), request_timeout=limits.BROKER_SECONDS)[
            topic
        ].result()
    except KafkaException as error:
        raise topic_refusal(error, topic, connection) from None
    return str(described.topic_id), sorted(partition.id for partition in described.partitions)


def topic_state(connection: Connection, topic: str) -> TopicState:
    """The current state of a topic on the broker."""
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

    id, partitions = topic_id(connection, topic)

    def ask(spec: Any, level: IsolationLevel) -> Mapping[int, Any]:
        places: dict[TopicPartition, Any] = {TopicPartition(topic, p): spec for p in partitions}
        answers = connection.admin.list_offsets(places, isolation_level=level, request_timeout=limits.BROKER_SECONDS)
        return {place.partition: answer.result() for place, answer in answers.items()}

    def offsets(spec: Any, level: IsolationLevel) -> Mapping[int, int]:
        return {p: found.offset for p, found in ask(spec, level).items()}

    committed, all_records = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    try:
        # The end is read before the beginning: retention in between must not reverse their order.
        ends = ask(OffsetSpec.latest(), committed)
        stable, high = {p: end.offset for p, end in ends.items()}, offsets(OffsetSpec.latest(), all_records)
        low = offsets(OffsetSpec.earliest(), committed)
        newest = ask(OffsetSpec.max_timestamp(), committed)
        # With an open transaction, or newer records, it is not the timestamp of the planned records.
        times = {p: found.timestamp for p, found in newest.items() if 0 <= found.offset < stable[p]}
        leaders = {
            p: end.leader_epoch for p, end in ends.items() if end.leader_epoch is not None and end.leader_epoch >= 0
        }
        return TopicState(topic, id, low, stable, high, times, leaders)
    except KafkaException as error:
        raise topic_refusal(error, topic, connection) from None


def next_slice(before: TopicSlice | None, state: TopicState, name: str, accept_loss: bool = False) -> TopicSlice:
    """The slice after ``before``; everything if there is none. ``accept_loss`` continues after missing records."""
    starts = dict.fromkeys(state.low, 0) | {p: end for p, (_, end) in before.ranges.items()} if before else state.low
    lost: dict[int, tuple[int, int]] = {}
    same = before is not None and (before.topic, before.id) == (state.topic, state.id)
    if before is not None:
        why = problem(state, before.topic, before.id, starts, starts, name)
        if why is not None and not accept_loss:
            raise why
        if why is not None:
            starts = starts if same else dict.fromkeys(state.low, 0)
            lost = {p: (start, state.low[p]) for p, start in starts.items() if start < state.low.get(p, start)}
            starts = {p: min(max(starts.get(p, 0), low), max(state.stable[p], low)) for p, low in state.low.items()}
    return TopicSlice(
        topic=state.topic,
        id=state.id,
        ranges={p: (start, max(state.stable[p], start)) for p, start in sorted(starts.items())},
        high=dict(state.high),
        added=tuple(sorted(state.low.keys() - before.ranges.keys())) if before and same else (),
        lost=lost,
        times=(dict(before.times) if before and same else {}) | dict(state.newest),
        leaders=dict(state.leaders),
        since=dict(before.leaders) if before and same and not accept_loss else {},
    )


def unreadable(planned: TopicSlice, state: TopicState, name: str) -> TopicRefusedError | None:
    """The refusal for a slice that can no longer be read; None if it can."""
    starts = {p: start for p, (start, _) in planned.unread.items()}
    ends = {p: end for p, (_, end) in planned.unread.items()}
    return problem(state, planned.topic, planned.id, starts, ends, name)


def problem(
    state: TopicState, topic: str, id: str, starts: Mapping[int, int], ends: Mapping[int, int], name: str
) -> TopicRefusedError | None:
    """Why records from ``starts`` on, which once reached to ``ends``, cannot be read; None if they can."""
    cure = f"`rivermeet accept-loss {name.replace('.', ' ')}` continues with what is there, and says what is lost"
    if (topic, id) != (state.topic, state.id):
        what = f"topic '{topic}' was deleted and recreated" if topic == state.topic else f"its records are of '{topic}'"
        return TopicRemadeError(
            f"source '{name}' reads topic '{state.topic}', and {what}: its offsets now denote other records. "
            f"{cure}; a rebuild with --lose-missing-files starts over, without the records so far",
            source=name,
            topic=state.topic,
        )
    gone = [f"{p}: {start} to {state.low[p] - 1}" for p, start in starts.items() if start < state.low.get(p, start)]
    if gone:
        return RecordsGoneError(
            f"source '{name}': topic '{topic}' has removed records before they were read, by partition and offset "
            f"{'; '.join(gone)}: its retention is shorter than the time between two epochs. {cure}",
            source=name,
            topic=topic,
        )
    back = [f"{p}: {state.stable.get(p, 0)} and not {end}" for p, end in ends.items() if state.stable.get(p, 0) < end]
    if back:
        return EndWentBackError(
            f"source '{name}': topic '{topic}' ends before what was read or planned of it, by partition "
            f"{'; '.join(back)}: the broker has lost records. {cure}",
            source=name,
            topic=topic,
        )
    return None


def lag_of(planned: TopicSlice | None, state: TopicState) -> list[PartitionLag]:
    """The lag of each partition, from the last slice that was read and the current topic."""
    known = planned if planned is not None and planned.id == state.id else None
    ends = {p: end for p, (_, end) in known.ranges.items()} if known is not None else {}
    times = known.times if known is not None else {}
    return [
        PartitionLag(p, ends.get(p, 0), stable, state.high[p], times.get(p), state.newest.get(p))
        for p, stable in sorted(state.stable.items())
    ]


class Topics(NamedTuple):
    """Finds the slices of a pipeline's topics, in its tables and its epoch log."""

    tables: str
    log: EpochLog

    def slice_of(self, node: Node) -> TopicSlice | None:
        """The last slice of the topic whose partitions a node has; None if it has others, or none was read."""
        while node.operation is not None and not node.partitions:
            node = next(iter(node.operation.inputs.values()))
        found = None
        if node.source is not None and not node.partitions:
            found = last_note(NodeTables(self.tables, node.pipeline.name, node.name).changelog)
        if found is None:
            return None
        plan = self.log.plan_of(node.name, found[1].epoch)
        return plan.reads if plan is not None and isinstance(plan.reads, TopicSlice) else None

    def count(self, node: Node) -> int:
        """The number of partitions of a node."""
        found = None if node.partitions else self.slice_of(node)
        return node.partitions or (len(found.ranges) if found is not None else 0)

    def refuse_unequal(self, node: Node) -> None:
        """Raise `NotCoPartitionedError` for a node whose inputs are topics with different numbers of partitions."""
        assert node.operation is not None
        if not node.operation.co_partitioned:
            return
        parts = [part for part in node.operation.inputs.values() if part.is_stored and part.kind != "global_table"]
        slices = [found for part in parts if (found := self.slice_of(part)) is not None]
        if len({len(found.ranges) for found in slices}) > 1:
            one, other = slices[0], next(s for s in slices if len(s.ranges) != len(slices[0].ranges))
            raise NotCoPartitionedError(
                f"'{node.pipeline.name}.{node.name}' is not co-partitioned: topic '{one.topic}' has "
                f"{pluralize(len(one.ranges), 'partition')}, topic '{other.topic}' has {len(other.ranges)}, and equal "
                "keys do not meet; give both topics the same number, or declare partitions=N at both sources, which "
                "rehashes their keys",
                pipeline=node.pipeline.name,
                node=node.name,
                topics=(one.topic, other.topic),
            )
