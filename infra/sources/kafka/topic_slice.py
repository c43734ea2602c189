"""The records of a topic that one epoch of a source reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.source_range import Origin, SourceRange
from rivermeet.infra.sources.kafka.lag import PartitionLag, most
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.times import moment


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
