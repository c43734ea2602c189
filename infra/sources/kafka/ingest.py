"""A topic as a step of the commit protocol: a slice is planned, consumed once, and becomes records of a changelog.

| the topic has | the epoch |
|---|---|
| new records | reads them, up to the last stable offset of each partition |
| offsets without records: transactions, compaction | is made all the same: its plan says where the next one starts |
| nothing new | is not made |
| removed records, become another topic, lost its end | is refused (``infra/sources/kafka/topic.py``) |

The position is in the plan of the last committed epoch. A record that is none of the source is a dead letter, with its
bytes, as a row of a file is, and too many of them refuse the epoch. Held by
``tests/infra/sources/kafka/test_reading.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra import crash
from rivermeet.infra.delta.changelog_files import earlier_epochs
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.declaration import new_columns
from rivermeet.infra.epochs.plan import CommitNote, EpochPlan, TopicSlice
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.sources.history import SourceStep
from rivermeet.infra.sources.kafka.connection import Connection
from rivermeet.infra.sources.kafka.consume import PATIENCE, consumed
from rivermeet.infra.sources.kafka.debezium.kept_values import ABSENT, with_kept_values
from rivermeet.infra.sources.kafka.debezium.repeats import AnotherLogError, Repeats
from rivermeet.infra.sources.kafka.formats.registry import Registry
from rivermeet.infra.sources.kafka.landing import Landing
from rivermeet.infra.sources.kafka.letters import letters_again
from rivermeet.infra.sources.kafka.records import landing_of, taken
from rivermeet.infra.sources.kafka.refusals import AnotherDatabaseError, PositionLostError
from rivermeet.infra.sources.kafka.rows import landed_rows
from rivermeet.infra.sources.kafka.topic import TopicState, next_slice, problem, topic_id, topic_state, unreadable
from rivermeet.infra.sources.reading import SourceFrames, partition_of
from rivermeet.infra.sources.rejected_rows import Read, refuse_too_many
from rivermeet.infra.sources.row_to_record import to_records
from rivermeet.pipelines import Kafka


@dataclass(frozen=True)
class TopicStep(SourceStep):
    """One source node that reads a topic.

    Attributes
    ----------
    connection, registry
        Where the records and the schemas are.
    landing
        Folder of the node's landed records.
    retry
        Whether open dead letters are planned, in place of new records.
    accept_loss
        Whether records that the topic has no more are passed over.
    patience
        Seconds without progress after which reading is given up.
    by_engine
        Gives the records of a slice as Spark's own source reads them; None: this process reads them.
    """

    connection: Connection
    registry: Registry
    landing: Path
    code_version: str = ""
    retry: bool = False
    accept_loss: bool = False
    patience: float = PATIENCE
    by_engine: Callable[[SparkSession, TopicSlice, Kafka, float], DataFrame] | None = None

    @property
    def topic(self) -> Kafka:
        """The declared topic."""
        return self.source.topic

    def position(self, note: CommitNote | None) -> TopicSlice | None:
        """The slice that the node has read last; None before the first.

        Raises
        ------
        PositionLostError
            Where the epoch log does not have the plan of the last committed epoch.
        """
        return self.last_read(note, "topic", lambda plan: plan.topic, PositionLostError)

    def state(self) -> TopicState:
        """The topic as it stands."""
        return topic_state(self.connection, self.topic.topic)

    def plan(self, previous: CommitNote | None, version: int | None, epoch: int) -> EpochPlan | None:
        """Plan all that is stable; the first epoch is planned without any, to give the changelog its shape."""
        before = self.position(previous)
        retries = self.so_far(previous).open.epochs if self.retry else ()
        if self.retry:
            if not retries or before is None:
                return None
            ends = {p: (end, end) for p, (_, end) in before.ranges.items()}
            found = before.model_copy(update={"ranges": ends, "added": (), "lost": {}})
        else:
            found = next_slice(before, self.state(), self.name, self.accept_loss)
            # A column that the source gets is new, also where no record is: what reads the source has to find it.
            due = found.unread or found.lost or (before is not None and before.id != found.id)
            if previous is not None and not due and not new_columns(self.node, previous):
                return None
        found = found.model_copy(update={"anew": self._accepts_another_log(before)})
        return self.next_plan(previous, version, epoch, topic=found, retries=retries, code_version=self.code_version)

    def _accepts_another_log(self, before: TopicSlice | None) -> bool:
        """Whether changes of another log are read: it was accepted now, or, of a rebuild, when they were read first."""
        if self.accept_loss or before is not None:
            return self.accept_loss and bool(self.topic.envelope)
        return any(plan.topic is not None and plan.topic.anew for plan in self.so_far(self.note()).plans)

    def check(self, plan: EpochPlan) -> str | None:
        """Why a plan is passed over: what it reads is gone, and that was accepted. Else reading it refuses it."""
        if not self.accept_loss or plan.topic is None or not plan.topic.unread:
            return None
        if self.topic.envelope and not plan.topic.anew:
            return "changes of another log than those before were accepted"
        why = unreadable(plan.topic, self.state(), self.name)
        if why is None and plan.topic.since:
            return "it was planned without the loss that is accepted"
        return None if why is None else str(why)

    def lost(self) -> str | None:
        """What a rebuild would lose of the records so far, for it can be read no more; None where nothing."""
        slices = [plan.topic for plan in self.so_far(self.note()).plans if plan.topic is not None]
        if not slices:
            return None
        starts = {p: start for found in reversed(slices) for p, (start, _) in found.ranges.items()}
        ends = {p: end for p, (_, end) in slices[-1].ranges.items()}
        why = problem(self.state(), slices[-1].topic, slices[-1].id, starts, ends, self.name)
        return None if why is None else f"what it read of topic '{slices[-1].topic}' is gone ({type(why).__name__})"

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Consume the planned slice, or decode the planned letters again; what is no record is a dead letter."""
        planned = plan.topic
        assert planned is not None, "a plan of a topic has a slice"
        landing, seen = Landing.anew(self.landing, plan.epoch), self._seen(plan, planned)
        if self.by_engine is not None and planned.unread and not plan.retries:
            self._land_by_engine(self.by_engine(spark, planned, self.topic, self.patience), planned, landing)
        else:
            landing.write(self._landed(plan, planned, seen))
        if seen is not None:
            self.log.write(self.node.name, plan.incarnation, plan.epoch, "position", seen.kept(planned.id))
        crash.reached("landed", self.node.name)
        parsed = shared.keep(self._parsed(landing.read(spark)))
        if seen is not None and (seen.absent or plan.retries):
            # Kept before, too: what parses a record would be repeated for each value that it may lack.
            parsed = shared.keep(with_kept_values(parsed, self.source, self._earlier(spark, plan)))
        frames = SourceFrames(parsed)
        ((dead,),) = parsed.agg(F.count_if(F.isnotnull("reason"))).collect()

        def accept(rows: int, sides: Mapping[str, int]) -> None:
            self._refuse_too_many(plan, frames.dead, rows, sides["dead_letter"])

        without = frozenset({"dead_letter"} if not dead else ())
        counted = seen.counted if seen is not None else {}
        return StepFrames(
            frames.records, {"dead_letter": frames.dead}, accept=accept, without_rows=without, counted=counted
        )

    def _land_by_engine(self, read: DataFrame, planned: TopicSlice, landing: Landing) -> None:
        self._refuse_unreadable(planned)
        if planned.since:
            # Spark's own source knows no leader epochs: the first record of each partition is read here, too.
            first = {p: (start, start + 1) for p, (start, _) in planned.unread.items()}
            for _ in consumed(self.connection, planned.model_copy(update={"ranges": first}), self.name, self.patience):
                pass
        try:
            landing.write_frame(read)
        except Exception:
            # Spark's errors name hosts: what the broker says now is why, if it says anything.
            self._refuse_unreadable(planned)
            raise
        self._refuse_remade(planned)

    def _seen(self, plan: EpochPlan, planned: TopicSlice) -> Repeats | None:
        """What was read of a topic of envelopes up to the epoch; None of other topics."""
        if not self.topic.envelope:
            return None
        kept = self.log.lines(self.node.name, "position", plan.previous_epoch - 1).get(plan.previous_epoch)
        return Repeats.of(kept, planned.id, planned.anew)

    def _earlier(self, spark: SparkSession, plan: EpochPlan) -> DataFrame | None:
        """The records of before the epoch, where rows may keep values of them."""
        if plan.output_version is None or plan.replaces:
            return None
        return earlier_epochs(spark, self.changelog, plan.epoch)

    def _landed(self, plan: EpochPlan, planned: TopicSlice, seen: Repeats | None) -> Iterator[pa.Table]:
        landed = landing_of(self.topic, self.registry, seen)
        if plan.retries:
            yield from letters_again(self.dead_letters, plan.retries, landing_of(self.topic, self.registry))
        if not planned.unread:
            return
        self._refuse_unreadable(planned)
        try:
            yield from taken(consumed(self.connection, planned, self.name, self.patience), planned, landed)
        except AnotherLogError as error:
            raise AnotherDatabaseError(
                f"source '{self.name}': topic '{planned.topic}' has a change {error}, and it was made after that: its "
                "positions are of another server's log, or of a database that was put back. `rivermeet accept-loss "
                f"{self.name.replace('.', ' ')}` reads on from there; rows that this database does not have stay: let "
                "the connector take a snapshot into a new topic to be without them"
            ) from None
        self._refuse_remade(planned)

    def _refuse_unreadable(self, planned: TopicSlice) -> None:
        why = unreadable(planned, self.state(), self.name)
        if why is not None:
            raise why

    def _refuse_remade(self, planned: TopicSlice) -> None:
        """Made anew while it was read, a topic may have given records of both."""
        now = TopicState(planned.topic, topic_id(self.connection, planned.topic)[0], {}, {}, {})
        why = problem(now, planned.topic, planned.id, {}, {}, self.name)
        if why is not None:
            raise why

    def _parsed(self, landed: DataFrame) -> DataFrame:
        own = None if self.node.partitions else "kafka_partition"
        absent = ABSENT if self.topic.envelope else None
        parsed = to_records(landed_rows(landed, self.topic), self.source, own, absent)
        return parsed if own else parsed.withColumn("partition", partition_of(F.col("key"), self.node.partitions))

    def _refuse_too_many(self, plan: EpochPlan, dead: DataFrame, rows: int, letters: int) -> None:
        """Refuse the epoch where more records are bad than the source allows; letters that are retried are known."""
        share, total = self.source.max_bad_share, letters + rows
        if letters > share * total and not plan.retries:
            read = Read(f"topic '{self.topic.topic}'", "offset", "mend the declaration or raise the share")
            refuse_too_many(self.name, dead, self.rejected, plan, (letters, total, letters), share, read)
