"""How far a source is behind its topic, per partition: in offsets, and in seconds by the timestamps that Kafka has.

    consumed 12, newest of it at 10:00:00; stable end 14, newest there at 10:00:05; high watermark 15, now 10:01:00

    behind        2 offsets
    held back     1 offset, of an open transaction
    seconds       5: between the newest record that was read and the newest that can be
    age           60: since the newest record that was read

Kafka gives the newest timestamp of a partition, and not that of its last record: where clocks are skewed, a partition
may be behind in offsets and not in seconds. The end of a transaction has one, too, by the broker's clock.
Held by ``tests/infra/kafka/test_lag.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rivermeet.infra.epochs.plan import TopicSlice
from rivermeet.infra.sources.kafka.topic import TopicState


@dataclass(frozen=True)
class PartitionLag:
    """One partition; ``consumed_ms`` and ``newest_ms`` are timestamps of records (epoch millis), None: not known."""

    partition: int
    consumed: int
    stable_end: int
    high_watermark: int
    consumed_ms: int | None = None
    newest_ms: int | None = None

    @property
    def behind(self) -> int:
        """Offsets that can be read and were not."""
        return max(self.stable_end - self.consumed, 0)

    @property
    def held_back(self) -> int:
        """Offsets that cannot be read yet, for a transaction is open."""
        return max(self.high_watermark - self.stable_end, 0)

    @property
    def seconds(self) -> float | None:
        """Seconds between the newest record that was read and the newest that can be; None where nobody knows."""
        if not self.behind:
            return 0.0
        if self.consumed_ms is None or self.newest_ms is None:
            return None
        return max(self.newest_ms - self.consumed_ms, 0) / 1000

    def age(self, now_ms: float) -> float | None:
        """Seconds since the newest record that was read; negative where its clock is ahead."""
        return None if self.consumed_ms is None else (now_ms - self.consumed_ms) / 1000


def lag_of(found: TopicSlice | None, state: TopicState) -> list[PartitionLag]:
    """The lag of each partition, of the slice that was read last and the topic as it stands."""
    known = found if found is not None and found.id == state.id else None
    ends = {p: end for p, (_, end) in known.ranges.items()} if known is not None else {}
    times = known.times if known is not None else {}
    return [
        PartitionLag(p, ends.get(p, 0), stable, state.high[p], times.get(p), state.newest.get(p))
        for p, stable in sorted(state.stable.items())
    ]


def planned_lag(found: TopicSlice) -> list[PartitionLag]:
    """The lag that a slice left when it was planned: what was held back."""
    return [
        PartitionLag(p, end, end, found.high.get(p, end), found.times.get(p), found.times.get(p))
        for p, (_, end) in sorted(found.ranges.items())
    ]


def most(values: Sequence[float | None]) -> float | None:
    """The largest of those that are known; None where none is."""
    return max((value for value in values if value is not None), default=None)
