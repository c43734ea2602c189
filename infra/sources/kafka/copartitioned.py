"""Joins of topics that keep their partitions: equal keys meet only if both have the same number of partitions.

| left | right | the join |
|---|---|---|
| topic of 4 partitions | topic of 4 | is allowed: Kafka's default partitioner puts equal keys into equal partitions |
| topic of 4 | topic of 6 | is refused, naming both topics |
| topic of 4, then 6 by an increase | topic of 4 | is refused from then on |
| ``partitions=8`` declared | ``partitions=8`` declared | is allowed: both are rehashed |

A topic against files, or against a topic that is rehashed, is refused when it is declared. Held by
``tests/infra/sources/kafka/test_joins.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.kafka.refusals import NotCoPartitionedError
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import Node
from rivermeet.pipelines.plural import pluralize


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
