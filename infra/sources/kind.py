"""A kind of source as one value: its declaration, its step, and its properties.

    @dataclass(frozen=True)
    class Feed: ...                                       the declaration, in a pipeline: stream("news", Feed("..."), …)

    class FeedRange(SourceRange, …):                      what one epoch reads, as its plan keeps it
        kind = "feed"

    class FeedStep(SourceStep[FeedRange]): ...            determines the next range, and reads it

    KIND = SourceKind("feed", Feed, FeedRange, step)      and `register(KIND)`, or an entry point ``rivermeet.sources``

No other code tests for the kind of a source. ``tests/toy_source.py`` is one from another package, held by
``tests/test_toy_source.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivermeet.infra.source_range import SourceRange
from rivermeet.infra.sources.standing import FreshnessRule
from rivermeet.pipelines import Node

if TYPE_CHECKING:
    from rivermeet.infra.engine.sessions import Sessions
    from rivermeet.infra.epochs.context import EpochContext
    from rivermeet.infra.kafka.connection import Connection
    from rivermeet.infra.kafka.formats.registry import Registry
    from rivermeet.infra.settings import Settings
    from rivermeet.infra.sources.source_step import SourceStep

GROUP = "rivermeet.sources"
"""Entry points of other packages: each names a `SourceKind`."""


@dataclass(frozen=True)
class SourceContext:
    """What a step gets of its project, and the epochs of its pipeline, with the locations of their log and tables.

    ``connection`` and ``registry`` give the clients of the broker and of the schema registry.
    """

    settings: Settings
    sessions: Sessions
    connection: Callable[[], Connection]
    registry: Callable[[], Registry]
    epochs: EpochContext

    def landing(self, node: Node) -> Path:
        """Folder of the landed rows of a node."""
        return self.settings.landing / node.pipeline.name / node.name


@dataclass(frozen=True)
class SourceKind:
    """A kind of source.

    Attributes
    ----------
    name
        Its name in messages.
    declaration
        The class of its declarations, or what they give as `Reads.declaration`.
    ranges
        The class of the ranges that its epochs read.
    step
        Creates a node's part in an epoch. Heavy modules are imported there.
    freshness
        The check of its lag; None: the node's freshness policy suffices.
    can_lose
        Whether records can be lost before they were read, so that ``accept-loss`` continues without them.
    has_snapshots
        Whether ``resnapshot`` replaces earlier records by a new snapshot.
    """

    name: str
    declaration: type
    ranges: type[SourceRange]
    step: Callable[[SourceContext, Node], SourceStep[Any]]
    freshness: FreshnessRule | None = None
    can_lose: bool = False
    has_snapshots: bool = False


KINDS: dict[type, SourceKind] = {}
"""The registered kinds by their declarations."""


def register(kind: SourceKind) -> None:
    """Add a kind, replacing one with the same declaration."""
    KINDS[kind.declaration] = kind
