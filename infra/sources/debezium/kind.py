"""Topics of Debezium's envelopes as a kind of source; their plans are those of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermeet.infra.sources.kafka.kind import FRESHNESS
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.infra.sources.kind import SourceContext, SourceKind
from rivermeet.pipelines import Debezium, Node

if TYPE_CHECKING:
    from rivermeet.infra.sources.debezium.ingest import EnvelopeStep


def step(context: SourceContext, node: Node) -> EnvelopeStep:
    """A node's part in an epoch."""
    from rivermeet.infra.sources.debezium.ingest import EnvelopeStep

    return EnvelopeStep.create(context, node)


KIND = SourceKind("topic of Debezium", Debezium, TopicSlice, step, FRESHNESS, can_lose=True)
