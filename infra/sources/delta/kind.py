"""Delta tables as a kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.infra.sources.kind import SourceContext, SourceKind
from rivermeet.infra.sources.standing import TABLE_FRESHNESS
from rivermeet.pipelines import DeltaTable, Node

if TYPE_CHECKING:
    from rivermeet.infra.sources.delta.ingest import DeltaStep


def step(context: SourceContext, node: Node) -> DeltaStep:
    """A node's part in an epoch."""
    from rivermeet.infra.sources.delta.ingest import DeltaStep

    return DeltaStep(node, context.epochs.paths(node), context.epochs.log, context.settings.data)


KIND = SourceKind("Delta table", DeltaTable, VersionRange, step, TABLE_FRESHNESS, can_lose=True)
