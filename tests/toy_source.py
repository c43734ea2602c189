"""A kind of source from outside: lines of a feed that keeps only the newest of them.

A feed is a folder of numbered texts, ``1.txt``, ``2.txt``, …; old ones are removed. `KIND` is all that Rivermeet has to
know of it; nothing in ours names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.small_frames import frame_of
from rivermeet.infra.source_range import Origin, SourceRange
from rivermeet.infra.sources.declared_types import as_declared
from rivermeet.infra.sources.kind import FreshnessRule, SourceContext, SourceKind
from rivermeet.infra.sources.row_to_record import SourceFrames
from rivermeet.infra.sources.source_step import SourceStep
from rivermeet.infra.sources.standing import Fresh, ReportTable, Standing
from rivermeet.pipelines import Node
from rivermeet.pipelines.reads.reads import Reads


@dataclass(frozen=True)
class Feed(Reads):
    """The declaration: a folder, whose texts have a name and a number each."""

    what: ClassVar[str] = "a feed"
    folder: str

    @property
    def schema(self) -> Mapping[str, str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {"name": "STRING", "n": "INT"}

    @property
    def label(self) -> str:
        return f"feed '{self.folder}'"

    def options(self, options: Mapping[str, Any], is_table: bool) -> Mapping[str, Any]:
        return {"key": ["name"], "timestamp": "n", **options}


class FeedGoneError(EpochRefusedError):
    """Texts were removed before they were read."""


class FeedRange(SourceRange):
    """The texts ``first`` to ``last``; those from ``gone`` on were lost, which was accepted."""

    kind: ClassVar[str] = "feed"
    first: int
    last: int
    gone: int | None = None

    @property
    def records(self) -> int:
        return max(self.last - self.first + 1, 0)

    @property
    def description(self) -> str:
        return f"texts {self.first} to {self.last} of a feed"

    @property
    def loss(self) -> str:
        return "" if self.gone is None else f"lost: texts {self.gone} to {self.first - 1}"

    def metadata(self, now_ms: float) -> Mapping[str, Any]:
        return {"texts_in": self.records}

    @classmethod
    def place(cls, file: str, line: int | None) -> str:
        return f"text {line} of feed '{file}'"

    def among(self, epoch: int) -> Origin:
        return Origin(None, None, f"one of {self.description}")


@dataclass(frozen=True)
class FeedStep(SourceStep[FeedRange]):
    """A node's part in an epoch."""

    read_word: ClassVar[str] = "feed"
    unit: ClassVar[str] = "text"
    ranges: ClassVar[type[SourceRange]] = FeedRange

    @property
    def folder(self) -> Path:
        reads = self.source.reads
        assert isinstance(reads, Feed)
        return Path(reads.folder)

    def numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.txt"))

    def read(self) -> int:
        """The last text that was read."""
        found = self.position(self.note())
        return 0 if found is None else found.last

    def next_range(self, previous: CommitNote | None) -> FeedRange | None:
        before = self.position(previous)
        first, there = 1 if before is None else before.last + 1, self.numbers()
        gone = None
        if before is not None and there and there[0] > first:
            if not self.accept_loss:
                raise FeedGoneError(
                    f"source '{self.name}': texts {first} to {there[0] - 1} are gone; accept-loss goes on"
                )
            gone = first
        found = FeedRange(first=max(first, *there[:1], 1), last=max([first - 1, *there]), gone=gone)
        return found if found.records or self.has_new_columns(previous) else None

    def range_again(self, previous: CommitNote | None) -> FeedRange | None:
        return None

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        assert isinstance(plan.reads, FeedRange)
        rows = []
        for number in range(plan.reads.first, plan.reads.last + 1):
            text = (self.folder / f"{number}.txt").read_text()
            name, _, n = text.partition(" ")
            rows.append((0, str(self.folder), 0, None, 0, number, number, text, None, name, n))
        raw = frame_of(spark, rows, RAW).selectExpr(
            *RAW.names[:9], "struct(name AS r0, n AS r1) AS raw", "CAST(NULL AS STRING) AS malformed"
        )
        found = shared.keep(self.records_of(as_declared(raw, self.source.reads.schema)))
        return self.finish(plan, SourceFrames(found))

    def find_standing(self) -> Standing:
        behind = len([number for number in self.numbers() if number > self.read()])
        return Standing(behind, [f"feed '{self.folder}': read up to text {self.read()}"])

    def fresh(self, freshness_ms: int, now_ms: float) -> Fresh:
        behind = self.find_standing().behind or 0
        return Fresh(not behind, f"{behind} texts behind.", {"lag_texts": behind})

    def report(self) -> ReportTable | None:
        return ReportTable(
            "feed", "Feed, as its newest epoch has read it", [("read up to", "number")], [(self.read(),)]
        )


RAW = pa.schema(
    [
        *[("file_rank", pa.int32()), ("file", pa.string()), ("modified_ms", pa.int64()), ("member", pa.string())],
        *[("block", pa.int64()), ("row", pa.int64()), ("line", pa.int64()), ("text", pa.string())],
        *[("header", pa.string()), ("name", pa.string()), ("n", pa.string())],
    ]
)


def step(context: SourceContext, node: Node) -> FeedStep:
    return FeedStep(node, context.epochs.paths(node), context.epochs.log)


KIND = SourceKind(
    "feed",
    Feed,
    FeedRange,
    step,
    FreshnessRule("feed_is_fresh", "No text has waited for {seconds} s."),
    can_lose=True,
)
