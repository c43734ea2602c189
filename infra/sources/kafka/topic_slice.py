"""The records of a topic that one epoch of a source reads.

The lag of a source behind its topic is per partition: in offsets, and in seconds by Kafka's timestamps.

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.source_range import Origin, SourceRange
from rivermeet.infra.sources.standing import Form, Fresh
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.times import moment, span


class TopicSlice(SourceRange):
    """The records ``[start, end)`` of each partition of a topic; ``end`` is where the next slice starts.

    ``id`` distinguishes the topic from a later one of its name. Not each offset has a record: transactions and
    compaction leave gaps. ``high`` is the high watermark when it was planned: records between ``end`` and it belong to
    open transactions. ``added`` are partitions that the previous slice did not have; ``lost`` are ranges ``[start,
    end)`` that were gone before they were read, which was accepted. ``times`` are the broker's newest timestamps (ms)
    below ``end``. ``leaders`` are the leader epochs of the partitions at ``end``, and ``since`` those at ``start``:
    with them the broker shows whether the records below are those that were read. ``anew`` says whether changes of
    another log are read, and not refused (``infra/sources/debezium/repeats.py``).
    """

    kind: ClassVar[str] = "topic"
    is_counted: ClassVar[bool] = True
    topic: str
    id: str
    ranges: dict[int, tuple[int, int]]
    high: Offsets = Field(default={})
    added: tuple[int, ...] = ()
    lost: dict[int, tuple[int, int]] = Field(default={})
    times: dict[int, int] = Field(default={})
    leaders: dict[int, int] = Field(default={})
    since: dict[int, int] = Field(default={})
    anew: bool = False

    @property
    def records(self) -> int:
        """The maximum number of records."""
        return sum(end - start for start, end in self.ranges.values())

    @property
    def unread(self) -> dict[int, tuple[int, int]]:
        """The ranges that are not empty."""
        return {partition: (start, end) for partition, (start, end) in self.ranges.items() if end > start}

    @property
    def description(self) -> str:
        """Describe the number of offsets and the topic."""
        return f"{pluralize(self.records, 'offset')} of topic '{self.topic}'"

    def parts(self) -> Iterator[str]:
        """The range of each partition that is not empty."""
        yield from (f"{self.topic}/{p}: offsets {start}-{end - 1}" for p, (start, end) in self.unread.items())

    def warnings(self, *, hashed: bool) -> Iterator[str]:
        """New partitions, and records that are lost."""
        if self.added:
            moved = " keys may lie elsewhere from now on, and their order across that is not given"
            says = " they are read" if hashed else moved
            yield f"topic '{self.topic}' has got partitions {', '.join(map(str, self.added))};{says}"
        for partition, (start, end) in self.lost.items():
            yield f"topic '{self.topic}', partition {partition}: offsets {start} to {end - 1} are lost, as was accepted"

    def describe_loss(self, rows: int) -> str:
        """Describe where reading started, and what was lost."""
        gone = "; ".join(f"partition {p}, offsets {start} to {end - 1}" for p, (start, end) in self.lost.items())
        start = ", ".join(f"{p}: {first}" for p, (first, _) in self.ranges.items())
        lost = f"lost: {gone}" if gone else "no offset of this topic is lost"
        return f"{pluralize(rows, 'record')} read from offsets {start}; {lost}"

    def lag(self) -> list[PartitionLag]:
        """The remaining lag when it was planned: the records that were held back."""
        return [
            PartitionLag(p, end, end, self.high.get(p, end), self.times.get(p), self.times.get(p))
            for p, (_, end) in sorted(self.ranges.items())
        ]

    def metadata(self, now_ms: float) -> Mapping[str, Any]:
        """The consumed offsets, and the state of the topic when it was planned."""
        partitions = self.lag()
        # The age of the newest record read in the partition that is furthest behind.
        oldest = most([one.age(now_ms) for one in partitions])
        rows = [
            {
                "partition": one.partition,
                "consumed": one.consumed,
                "high_watermark": one.high_watermark,
                "held_back": one.held_back,
                "newest": moment(one.consumed_ms, ""),
            }
            for one in partitions
        ]
        return {
            "offsets_in": self.records,
            "lag_held_back": sum(one.held_back for one in partitions),
            **({"lag_seconds": round(oldest, 3)} if oldest is not None else {}),
            "lag_by_partition": rows,
        }

    @classmethod
    def place(cls, file: str, line: int | None) -> str:
        """Topic, partition and offset."""
        topic, _, partition = file.rpartition("/")
        return f"topic '{topic}', partition {partition}, offset {line}"

    def among(self, epoch: int) -> Origin:
        """The offsets that were read."""
        ranges = ", ".join(f"partition {p} from {start} to {end - 1}" for p, (start, end) in self.unread.items())
        return Origin(self.topic, None, f"topic '{self.topic}', among the offsets of {ranges}")


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
    # Where records are held back, since the newest one that was read.
    late = {one.partition: one.age(now_ms) if one.held_back and not one.behind else one.seconds for one in lag}
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
