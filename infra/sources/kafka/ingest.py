"""A topic as a step of the commit protocol: a slice is planned, consumed once, and becomes records of a changelog.

| the topic has | the epoch |
|---|---|
| new records | reads them, up to the last stable offset of each partition |
| offsets without records: transactions, compaction | is committed too: its plan says where the next one starts |
| nothing new | is not made |
| removed records, become another topic, lost its end | is refused (``infra/sources/kafka/topic.py``) |

The position is in the plan of the last committed epoch. A payload that is not a record of the source is a dead letter,
with its bytes, like a row of a file, and too many of them refuse the epoch. Held by
``tests/infra/sources/kafka/test_reading.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.engine.fit import fit_compilation
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.kafka.connection import Connection
from rivermeet.infra.kafka.formats.codecs import Decoder, decoders_of
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.kafka.refusals import TopicPositionLostError, TopicRefusedError
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.source_range import SourceRange
from rivermeet.infra.sources.kafka.consume import consume_slice
from rivermeet.infra.sources.kafka.engine_reader import slice_rows
from rivermeet.infra.sources.kafka.landing import SCHEMA, Passed, build_rows, landing_of, letters_again
from rivermeet.infra.sources.kafka.rows import decode_landed
from rivermeet.infra.sources.kafka.topic import (
    TopicState,
    lag_of,
    next_slice,
    problem,
    topic_id,
    topic_state,
    unreadable,
)
from rivermeet.infra.sources.kafka.topic_slice import COLUMNS, PartitionLag, TopicSlice, is_fresh
from rivermeet.infra.sources.kind import SourceContext
from rivermeet.infra.sources.landing_folder import LandingFolder
from rivermeet.infra.sources.places import spark_path
from rivermeet.infra.sources.row_to_record import SourceFrames, partition_of, to_records
from rivermeet.infra.sources.source_step import SourceStep
from rivermeet.infra.sources.standing import Fresh, ReportTable, Standing
from rivermeet.pipelines import Kafka, Node, limits


@dataclass(frozen=True)
class TopicStep(SourceStep[TopicSlice]):
    """One source node that reads a topic.

    Attributes
    ----------
    connection, registry
        Clients of the broker and the schema registry.
    landing
        Folder of the node's landed records.
    patience
        Seconds without progress after which reading fails.
    by_engine
        Reads the records of a slice with Spark's own source; None: this process reads them.
    """

    connection: Connection
    registry: Registry
    landing: Path
    patience: float = limits.PROGRESS_SECONDS
    by_engine: Callable[[SparkSession, TopicSlice, Kafka, float], DataFrame] | None = None
    read_word: ClassVar[str] = "topic"
    unit: ClassVar[str] = "offset"
    position_lost: ClassVar[type[EpochRefusedError]] = TopicPositionLostError
    ranges: ClassVar[type[SourceRange]] = TopicSlice

    @classmethod
    def create(cls, context: SourceContext, node: Node) -> Self:
        """A node's step; Spark's own source reads its topic where the settings say so."""
        settings, epochs = context.settings, context.epochs
        by_engine = None if settings.topic_reader == "driver" else partial(slice_rows, settings)
        clients = context.connection(), context.registry()
        return cls(node, epochs.paths(node), epochs.log, *clients, context.landing(node), by_engine=by_engine)

    @property
    def topic(self) -> Kafka:
        """The declared topic."""
        return self.source.topic

    def state(self) -> TopicState:
        """The current state of the topic."""
        return topic_state(self.connection, self.topic.topic)

    def lag(self) -> list[PartitionLag]:
        """The lag per partition, from the broker; refused if the next run would be."""
        read, state = self.position(self.note()), self.state()
        if read is not None:
            # The consumed offsets of a recreated topic have no meaning.
            ends = {p: end for p, (_, end) in read.ranges.items()}
            refused = problem(state, read.topic, read.id, ends, ends, self.name)
            if refused is not None:
                raise refused
        return lag_of(read, state)

    def find_standing(self) -> Standing:
        """The number of unread offsets, and the state of each partition."""
        lag, now_ms = self.lag(), time.time() * 1000
        lines = [f"topic '{self.topic.topic}', partition {one.partition}: {one.describe(now_ms)}" for one in lag]
        return Standing(sum(one.behind for one in lag), lines)

    def fresh(self, freshness_ms: int, now_ms: float) -> Fresh:
        """Whether the consumed records are at most that far behind the newest record of the topic."""
        return is_fresh(self.lag(), freshness_ms, now_ms)

    def report(self) -> ReportTable | None:
        """Each partition, as of the newest plan."""
        try:
            found = self.position(self.note())
        except TopicPositionLostError:
            return None
        lag = found.lag() if found is not None else []
        rows = [(o.partition, o.consumed, o.high_watermark, o.held_back, o.consumed_ms, o.consumed_ms) for o in lag]
        caption = f"Topic {self.topic.topic}, when its newest epoch was planned"
        return ReportTable("topic", caption, COLUMNS, rows) if rows else None

    def next_range(self, previous: CommitNote | None) -> TopicSlice | None:
        """All stable records."""
        before = self.position(previous)
        found = next_slice(before, self.state(), self.name, self.accept_loss)
        due = found.unread or found.lost or (before is not None and before.id != found.id)
        return found if due or self.has_new_columns(previous) else None

    def range_again(self, previous: CommitNote | None) -> TopicSlice | None:
        """No record."""
        before = self.position(previous)
        if before is None:
            return None
        ends = {p: (end, end) for p, (_, end) in before.ranges.items()}
        return before.model_copy(update={"ranges": ends, "added": (), "lost": {}, "anew": False})

    def unreadable(self, planned: TopicSlice) -> TopicRefusedError | None:
        """The refusal of a slice that can no longer be read; None if it can."""
        return unreadable(planned, self.state(), self.name) if planned.unread else None

    def explain_skip(self, plan: EpochPlan) -> str | None:
        """Why a plan is skipped: its records are gone, and that was accepted. Otherwise reading it is refused."""
        why, planned = super().explain_skip(plan), plan.reads
        is_old = self.accept_loss and isinstance(planned, TopicSlice) and planned.unread and planned.since
        return "it was planned without the loss that is accepted" if why is None and is_old else why

    def describe_loss(self) -> str | None:
        """Describe the records that a rebuild would lose because they can no longer be read, or None."""
        slices = self.ranges_of(self.so_far(self.note()).plans)
        if not slices:
            return None
        starts = {p: start for found in reversed(slices) for p, (start, _) in found.ranges.items()}
        ends = {p: end for p, (_, end) in slices[-1].ranges.items()}
        why = problem(self.state(), slices[-1].topic, slices[-1].id, starts, ends, self.name)
        return None if why is None else f"what it read of topic '{slices[-1].topic}' is gone ({type(why).__name__})"

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Consume the planned slice, or decode the planned letters again, into records and dead letters."""
        landed = self.land(spark, plan)
        crash.crash_at("landed", self.node.name)
        return self.finish(plan, SourceFrames(shared.keep(self.parse(landed))))

    def within(self, plan: EpochPlan) -> str:
        """The topic."""
        return self.source.reads.label

    def decoders(self) -> Mapping[str, Decoder | None]:
        """The decoders of keys and values; None where Spark reads the payloads."""
        return decoders_of(self.topic, self.registry)

    def land(self, spark: SparkSession, plan: EpochPlan, passed: Passed | None = None) -> DataFrame:
        """Land the planned slice, or the planned letters; ``passed`` says which new records are skipped."""
        planned = plan.reads
        assert isinstance(planned, TopicSlice), "a plan of a topic has a slice"
        landing = LandingFolder.create(self.landing, plan.epoch, SCHEMA)
        if self.by_engine is not None and planned.unread and not plan.retries:
            self._land_by_engine(self.by_engine(spark, planned, self.topic, self.patience), planned, landing)
            fit_compilation(spark, planned.records)
        else:
            fit_compilation(spark, landing.write(self._land(plan, planned, passed)))
        return landing.read(spark)

    def parse(self, landed: DataFrame, absent: str | None = None) -> DataFrame:
        """Landed records as `to_records` gives them, with their partitions; ``absent`` as there."""
        own = None if self.node.partitions else "kafka_partition"
        parsed = to_records(decode_landed(landed, self.topic), self.source, own, absent)
        return (
            parsed if own else parsed.select("*", partition_of(F.col("key"), self.node.partitions).alias("partition"))
        )

    def _land_by_engine(self, read: DataFrame, planned: TopicSlice, landing: LandingFolder) -> None:
        self.refuse_unreadable(planned)
        if planned.since:
            # Spark's own source does not check leader epochs: the first record of each partition is read here, too.
            first = {p: (start, start + 1) for p, (start, _) in planned.unread.items()}
            for _ in consume_slice(
                self.connection, planned.model_copy(update={"ranges": first}), self.name, self.patience
            ):
                pass
        try:
            # Once, so that the broker is not read again.
            read.write.mode("append").parquet(spark_path(str(landing.folder)))
        except Exception:
            # Spark's errors contain hosts: the current error of the broker is shown instead, if there is one.
            self.refuse_unreadable(planned)
            raise
        self._refuse_remade(planned)

    def _land(self, plan: EpochPlan, planned: TopicSlice, passed: Passed | None) -> Iterator[pa.Table]:
        decoders = self.decoders()
        if plan.retries:
            yield from letters_again(self.paths.dead_letter, plan.retries, landing_of(self.topic, decoders))
        if not planned.unread:
            return
        self.refuse_unreadable(planned)
        messages = consume_slice(self.connection, planned, self.name, self.patience)
        yield from build_rows(messages, planned, landing_of(self.topic, decoders, passed))
        self._refuse_remade(planned)

    def _refuse_remade(self, planned: TopicSlice) -> None:
        """Refuse a topic that was recreated while it was read: the records may come from both."""
        now = TopicState(planned.topic, topic_id(self.connection, planned.topic)[0], {}, {}, {})
        why = problem(now, planned.topic, planned.id, {}, {}, self.name)
        if why is not None:
            raise why
