"""How far sources are behind what they read, or why nobody knows; each broker and server is asked once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivermeet.expectations.report.words import span
from rivermeet.pipelines import Kafka, Node, Postgres

if TYPE_CHECKING:
    from rivermeet.assets.epoch.platform import Platform
    from rivermeet.infra.kafka.lag import PartitionLag
    from rivermeet.infra.sources.postgres.lag import WalLag


def reads_topic(node: Node) -> bool:
    """Whether a node is a source of a topic."""
    return node.source is not None and isinstance(node.source.reads, Kafka)


@dataclass(frozen=True)
class TopicLag:
    """How far a source is behind its topic, or why nobody knows; the broker is asked once."""

    topic: str
    partitions: Sequence[PartitionLag] = ()
    refusal: str = ""

    @classmethod
    def of(cls, platform: Platform, node: Node) -> TopicLag:
        """Ask the broker."""
        from rivermeet.infra.epochs.refusal import EpochRefusedError
        from rivermeet.infra.settings import SettingsError

        assert node.source is not None
        topic = node.source.topic.topic
        try:
            return cls(topic, platform.topic_lag(node))
        except (EpochRefusedError, SettingsError) as refusal:
            return cls(topic, refusal=str(refusal))

    @property
    def behind(self) -> int | None:
        """Offsets that were not read yet; None: nobody knows."""
        return None if self.refusal else sum(one.behind for one in self.partitions)

    def lines(self, name: str) -> Iterator[str]:
        """Per partition where it ends, what was read of it, and how old that is."""
        if self.refusal:
            yield f"{name}: {self.refusal}"
        now = time.time() * 1000
        for one in self.partitions:
            age, seconds = one.age(now), one.seconds
            parts = [
                f"consumed up to {one.consumed:,}",
                f"stable end {one.stable_end:,}",
                f"high watermark {one.high_watermark:,}",
                *([f"{one.held_back:,} offsets held back by open transactions"] if one.held_back else []),
                *([f"{span(round(seconds * 1000))} behind"] if one.behind and seconds is not None else []),
                *([f"newest record read {span(round(age * 1000))} old"] if age is not None else []),
            ]
            yield f"{name}: topic '{self.topic}', partition {one.partition}: {', '.join(parts)}"


def table_lag(platform: Platform, node: Node) -> tuple[int | None, str]:
    """How many versions a source is behind its Delta table, None where nobody knows, and a line that says so."""
    from rivermeet.infra.epochs.refusal import EpochRefusedError
    from rivermeet.infra.sources.delta.ingest import DeltaStep

    step = platform.source_step(node)
    assert isinstance(step, DeltaStep), f"{node.name} reads a table"
    try:
        before, latest, behind = step.position(step.note()), step.state().latest, step.behind()
    except EpochRefusedError as refusal:
        return None, str(refusal)
    read = "nothing read" if before is None else f"read up to version {before.end}"
    return behind, f"table {step.path}: {read}, newest version {latest}"


def reads_table(node: Node) -> bool:
    """Whether a node is a source of a table of PostgreSQL."""
    return node.source is not None and isinstance(node.source.reads, Postgres)


@dataclass(frozen=True)
class TableLag:
    """How far a source is behind its table of PostgreSQL, or why nobody knows; the server is asked once."""

    table: str
    lag: WalLag | None = None
    refusal: str = ""

    @classmethod
    def of(cls, platform: Platform, node: Node) -> TableLag:
        """Ask the server."""
        from rivermeet.infra.epochs.refusal import EpochRefusedError
        from rivermeet.infra.settings import SettingsError

        assert node.source is not None
        table = node.source.postgres.table
        try:
            return cls(table, platform.table_lag(node))
        except (EpochRefusedError, SettingsError) as refusal:
            return cls(table, refusal=str(refusal))

    @property
    def behind(self) -> int | None:
        """Bytes of the log that were not read yet; None: nobody knows."""
        return self.lag.behind if self.lag is not None else None

    def lines(self, name: str) -> Iterator[str]:
        """What was read of the log, and what the slot holds back of it."""
        if self.refusal:
            yield f"{name}: {self.refusal}"
        elif self.lag is not None:
            yield f"{name}: table '{self.table}', {self.lag.shown}"
