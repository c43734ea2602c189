"""Topics as a kind of source."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.infra.sources.kind import FreshnessRule, SourceContext, SourceKind
from rivermeet.pipelines import Kafka, Node

if TYPE_CHECKING:
    from rivermeet.infra.sources.kafka.ingest import TopicStep

_Step = TypeVar("_Step", bound="TopicStep")


def topic_step(of: type[_Step], context: SourceContext, node: Node) -> _Step:
    """A node's part in an epoch, of a kind that reads topics."""
    from rivermeet.infra.sources.kafka.engine_reader import slice_rows

    settings = context.settings
    return of(
        node,
        context.epochs.paths(node),
        context.epochs.log,
        context.connection(),
        context.registry(),
        context.landing(node),
        by_engine=None if settings.topic_reader == "driver" else partial(slice_rows, settings),
    )


def step(context: SourceContext, node: Node) -> TopicStep:
    """A node's part in an epoch."""
    from rivermeet.infra.sources.kafka.ingest import TopicStep

    return topic_step(TopicStep, context, node)


FRESHNESS = FreshnessRule(
    "topic_is_fresh", "What was read of the topic is at most {seconds} s behind its newest record."
)
KIND = SourceKind("topic", Kafka, TopicSlice, step, FRESHNESS, can_lose=True)
