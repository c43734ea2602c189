"""The lag of a source behind its topic, per partition: in offsets, and in seconds by Kafka's timestamps.

    consumed 12, newest of it 10:00:00; stable end 14, newest there 10:00:05; high watermark 15; now 10:01:00

    behind        2 offsets
    held back     1 offset, of an open transaction
    seconds       5: between the newest record that was read and the newest readable one
    age           60: since the newest record that was read

Kafka reports the newest timestamp of a partition, and not that of its last record: with skewed clocks, a partition
may be behind in offsets and not in seconds. Transaction markers have a timestamp, too, from the broker's clock.
Held by ``tests/infra/kafka/test_lag.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rivermeet.infra.sources.standing import Form, Fresh
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.times import span

COLUMNS: Sequence[tuple[str, Form]] = (
    ("partition", "number"),
    ("consumed up to", "number"),
    ("high watermark", "number"),
    ("held back", "number"),
    ("newest record read", "moment"),
    ("its age", "age"),
)
"""Columns of a topic in the quality report."""


@dataclass(frozen=True)
class PartitionLag:
    """One partition; ``consumed_ms`` and ``newest_ms`` are timestamps of records (epoch millis), None: unknown."""

    partition: int
    consumed: int
    stable_end: int
    high_watermark: int
    consumed_ms: int | None = None
    newest_ms: int | None = None

    @property
    def behind(self) -> int:
        """Unread offsets that can be read."""
        return max(self.stable_end - self.consumed, 0)

    @property
    def held_back(self) -> int:
        """Offsets that cannot be read yet, because a transaction is open."""
        return max(self.high_watermark - self.stable_end, 0)

    @property
    def seconds(self) -> float | None:
        """Seconds between the newest record that was read and the newest readable one; None if unknown."""
        if not self.behind:
            return 0.0
        if self.consumed_ms is None or self.newest_ms is None:
            return None
        return max(self.newest_ms - self.consumed_ms, 0) / 1000

    def describe(self, now_ms: float) -> str:
        """Describe its end, the consumed offset, and the age of the newest record read."""
        age, seconds = self.age(now_ms), self.seconds
        parts = [
            f"consumed up to {self.consumed:,}",
            f"stable end {self.stable_end:,}",
            f"high watermark {self.high_watermark:,}",
            *([f"{pluralize(self.held_back, 'offset')} held back by open transactions"] if self.held_back else []),
            *([f"{span(round(seconds * 1000))} behind"] if self.behind and seconds is not None else []),
            *([f"newest record read {span(round(age * 1000))} old"] if age is not None else []),
        ]
        return ", ".join(parts)

    def unread_seconds(self, now_ms: float) -> float | None:
        """Seconds that it is behind; if records are held back, since the newest one that was read."""
        return self.age(now_ms) if self.held_back and not self.behind else self.seconds

    def age(self, now_ms: float) -> float | None:
        """Seconds since the newest record that was read; negative if its clock is ahead."""
        return None if self.consumed_ms is None else (now_ms - self.consumed_ms) / 1000


def most(values: Sequence[float | None]) -> float | None:
    """The largest of the known values; None if none is known."""
    return max((value for value in values if value is not None), default=None)


def is_fresh(lag: Sequence[PartitionLag], freshness_ms: int, now_ms: float) -> Fresh:
    """Judge the lag of a topic's partitions.

    | the topic | freshness 30 min | is fresh |
    |---|---|---|
    | was read to its end | | yes, however old its last record is |
    | has a record that is 10 min newer than all records read | | yes |
    | the same, 40 min | | no |
    | an open transaction has held back records for 40 min since the newest record read | | no |
    """
    late = {one.partition: one.unread_seconds(now_ms) for one in lag}
    known = [seconds for seconds in late.values() if seconds is not None]
    seconds = max(known, default=0.0)
    passed = len(known) == len(late) and seconds * 1000 <= freshness_ms
    offsets, held = sum(one.behind for one in lag), sum(one.held_back for one in lag)
    what = f"{pluralize(offsets, 'offset')}{f' and {seconds:,.1f} s' if passed or known else ''} behind"
    unread = [p for p, found in late.items() if found is None]
    nothing = f"; nothing was read of partitions {', '.join(map(str, unread))}" if unread else ""
    return Fresh(
        passed,
        f"{what}, {held:,} held back by open transactions{nothing}.",
        {"lag_seconds": seconds, "lag_offsets": offsets, "lag_held_back": held},
    )
