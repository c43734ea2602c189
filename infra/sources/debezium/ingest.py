"""A topic of Debezium's envelopes as a step of the commit protocol: a topic, without repeats, with kept values.

| the topic has | the epoch |
|---|---|
| a change that the connector repeats, a message, a null after a delete | skips it, and counts it (``repeats.py``) |
| an update without a large value that it left unchanged | gives it the value of the key's row (``kept_values.py``) |
| a change of another database's log | is refused until it is accepted |

The rest is as for other topics (``infra/sources/kafka/ingest.py``). Held by
``tests/infra/sources/debezium/test_topics.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.changelog_files import earlier_epochs
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.kafka.formats.codecs import Decoder, guard
from rivermeet.infra.kafka.refusals import TopicRefusedError
from rivermeet.infra.sources.debezium.envelope import envelope_decode, key_decode
from rivermeet.infra.sources.debezium.kept_values import ABSENT, with_kept_values
from rivermeet.infra.sources.debezium.repeats import AnotherLogError, Repeats
from rivermeet.infra.sources.kafka.ingest import TopicStep
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.infra.sources.row_to_record import SourceFrames
from rivermeet.pipelines import Debezium


class AnotherDatabaseError(TopicRefusedError):
    """Changes come from another log than the earlier ones: from another server, or from a restored one."""

    remedy = "Run `rivermeet accept-loss`, or read a new topic with a new snapshot."


@dataclass(frozen=True)
class EnvelopeStep(TopicStep):
    """One source node that reads envelopes, or other values by the keys of envelopes."""

    def next_range(self, previous: CommitNote | None) -> TopicSlice | None:
        """All stable records."""
        return self._of_its_log(super().next_range(previous), previous)

    def range_again(self, previous: CommitNote | None) -> TopicSlice | None:
        """No record."""
        return self._of_its_log(super().range_again(previous), previous)

    def _of_its_log(self, found: TopicSlice | None, previous: CommitNote | None) -> TopicSlice | None:
        """Whether changes of another log are read: accepted now or, for a rebuild, when they were first read."""
        if found is None or not self.topic.envelope:
            return found
        first = previous is None and not self.accept_loss
        anew = any(one.anew for one in self.ranges_of(self.so_far(self.note()).plans)) if first else self.accept_loss
        return found.model_copy(update={"anew": anew})

    def explain_skip(self, plan: EpochPlan) -> str | None:
        """Why a plan is skipped: also one that would refuse the changes that were accepted."""
        planned, is_accepted = plan.reads, self.accept_loss and self.topic.envelope
        if is_accepted and isinstance(planned, TopicSlice) and planned.unread and not planned.anew:
            return "changes of another log than those before were accepted"
        return super().explain_skip(plan)

    def decoders(self) -> Mapping[str, Decoder | None]:
        """Those of envelopes and their keys, and those of other formats."""
        found = dict(super().decoders())
        if isinstance(self.topic.key, Debezium):
            found["key"] = guard(key_decode(self.topic.key, self.registry), "key")
        if isinstance(self.topic.value, Debezium):
            found["value"] = guard(envelope_decode(self.topic.value, self.registry), "value")
        return found

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Consume the planned slice without repeats, and give updates the values that they leave out."""
        planned = plan.reads
        if not self.topic.envelope or not isinstance(planned, TopicSlice):
            return super().compute(spark, plan, shared)
        kept = self.log.lines(self.node.name, "position", plan.previous_epoch - 1).get(plan.previous_epoch)
        seen = Repeats.of(kept, planned.id, planned.anew)
        try:
            landed = self.land(spark, plan, seen.find_passed)
        except AnotherLogError as error:
            raise AnotherDatabaseError(
                f"source '{self.name}': topic '{planned.topic}' has a change {error}, and it was made after that: its "
                "positions are of another server's log, or of a restored database. `rivermeet accept-loss "
                f"{self.name.replace('.', ' ')}` reads on from there; rows that this database does not have stay: let "
                "the connector take a snapshot into a new topic to be without them",
                source=self.name,
                topic=planned.topic,
            ) from None
        self.log.write(self.node.name, plan.incarnation, plan.epoch, "position", seen.to_json(planned.id))
        crash.crash_at("landed", self.node.name)
        parsed = shared.keep(self.parse(landed, ABSENT))
        if seen.absent or plan.retries:
            is_first = plan.output_version is None or plan.replaces
            earlier = None if is_first else earlier_epochs(spark, self.paths.changelog, plan.epoch)
            # Cached here, too: otherwise a record would be parsed again for each value that it may lack.
            parsed = shared.keep(with_kept_values(parsed, self.source, earlier))
        return self.finish(plan, SourceFrames(parsed), counted=seen.counts)
