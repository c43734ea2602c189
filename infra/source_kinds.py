"""The kinds of source there are: ours, and those of other packages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from rivermeet.infra.sources.debezium.kind import KIND as DEBEZIUM
from rivermeet.infra.sources.delta.kind import KIND as DELTA
from rivermeet.infra.sources.files.kind import KIND as FILES
from rivermeet.infra.sources.kafka.kind import KIND as KAFKA
from rivermeet.infra.sources.kind import GROUP, KINDS, SourceKind, register
from rivermeet.infra.sources.postgres.kind import KIND as POSTGRES
from rivermeet.pipelines import Node
from rivermeet.pipelines.errors import NotFoundError


@cache
def load() -> None:
    """Register all kinds, once."""
    for kind in (FILES, KAFKA, DEBEZIUM, DELTA, POSTGRES, *(entry.load() for entry in entry_points(group=GROUP))):
        register(kind)


def kind_of(node: Node) -> SourceKind | None:
    """The kind of a source; None of a node that is computed.

    Raises `NotFoundError` if no installed kind has such declarations.
    """
    if node.source is None:
        return None
    load()
    declared = node.source.reads.declaration
    found = next((KINDS[base] for base in declared.__mro__ if base in KINDS), None)
    if found is None:
        known = ", ".join(sorted(kind.name for kind in KINDS.values()))
        raise NotFoundError(
            f"source '{node.pipeline.name}.{node.name}' reads a {declared.__name__}, which no kind of source here is "
            f"declared by; there are {known}; install the package that it comes from, or register its SourceKind",
            pipeline=node.pipeline.name,
            node=node.name,
        )
    return found
