"""A kind of source as one value: what declares it, what reads it, and what can be asked of it.

    @dataclass(frozen=True)
    class Feed: ...                                       the declaration, in a pipeline: stream("news", Feed("..."), …)

    class FeedRange(SourceRange, …):                      what one epoch reads, as its plan keeps it
        kind = "feed"

    class FeedStep(SourceStep[FeedRange]): ...            what is new, and how that is read

    KIND = SourceKind("feed", Feed, FeedRange, step)      and `register(KIND)`, or an entry point ``rivermeet.sources``

Nobody else asks of which kind a source is. ``tests/toy_source.py`` is one from outside, held by
``tests/test_toy_source.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rivermeet.infra.settings import Settings
from rivermeet.infra.source_range import SourceRange
from rivermeet.pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermeet.infra.epochs.context import EpochContext
    from rivermeet.infra.sources.source_step import SourceStep

GROUP = "rivermeet.sources"
"""Entry points of other packages: each names a `SourceKind`."""


@dataclass(frozen=True)
class SourceContext:
    """What a step is made of, besides its node.

    Attributes
    ----------
    epochs
        The node's tables, and the epoch log of its pipeline.
    locks
        Folder of the pipeline's locks.
    session
        Gives the Spark session.
    lands_files
        Whether this process reads text files, and not the engine.
    connection, registry
        Give the broker of topics and the schema registry, which sinks use, too.
    """

    settings: Settings
    epochs: EpochContext
    locks: Path
    session: Callable[[], SparkSession]
    lands_files: bool
    code_version: str
    connection: Callable[[], Any]
    registry: Callable[[], Any]

    def landing(self, node: Node) -> Path:
        """Folder of what was read for a node."""
        return self.settings.landing / node.pipeline.name / node.name

    def changelog(self, node: Node) -> str:
        """Location of a node's changelog."""
        return self.epochs.paths(node).changelog


@dataclass(frozen=True)
class FreshnessRule:
    """A check of Dagster's: its name, and what it says, with ``{seconds}`` for the pipeline's freshness."""

    name: str
    sentence: str


@dataclass(frozen=True)
class SourceKind:
    """A kind of source.

    Attributes
    ----------
    name
        What messages call it.
    declaration
        The class of its declarations.
    ranges
        The class of what its epochs read.
    step
        Makes a node's part in an epoch. What is heavy is imported there.
    freshness
        The check of how far it is behind; None: the node's own freshness policy is enough.
    can_lose
        Whether records can go before they were read, so that ``accept-loss`` goes on without them.
    has_snapshots
        Whether ``resnapshot`` reads it as it stands, in place of what was read before.
    """

    name: str
    declaration: type
    ranges: type[SourceRange]
    step: Callable[[SourceContext, Node], SourceStep[Any]]
    freshness: FreshnessRule | None = None
    can_lose: bool = False
    has_snapshots: bool = False


_kinds: dict[type, SourceKind] = {}


def register(kind: SourceKind) -> None:
    """Add a kind, in place of one with the same declaration."""
    _kinds[kind.declaration] = kind


def register_installed() -> None:
    """Add the kinds of other packages that are installed here."""
    for found in entry_points(group=GROUP):
        register(found.load())


def registered() -> Mapping[type, SourceKind]:
    """The kinds by their declarations."""
    return MappingProxyType(_kinds)
