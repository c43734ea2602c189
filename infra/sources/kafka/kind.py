"""Topics as a kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.infra.sources.kind import FreshnessRule, SourceContext, SourceKind
from rivermeet.pipelines import Kafka, Node

if TYPE_CHECKING:
    from rivermeet.infra.sources.kafka.ingest import TopicStep


def step(context: SourceContext, node: Node) -> TopicStep:
    """A node's part in an epoch."""
    from rivermeet.infra.sources.kafka.ingest import TopicStep

    return TopicStep.create(context, node)


FRESHNESS = FreshnessRule(
    "topic_is_fresh", "What was read of the topic is at most {seconds} s behind its newest record."
)
KIND = SourceKind("topic", Kafka, TopicSlice, step, FRESHNESS, can_lose=True)
