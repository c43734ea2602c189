"""Sources as steps of the commit protocol: files, each consumed once, become records of a changelog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from infra.delta_io import last_note
from infra.epoch_log import EpochLog
from infra.epochs import Audit, EpochRefusedError, StepFrames
from infra.file_discovery import FileState, discover, refuse_changed, unconsumed
from infra.file_reading import SourceFrames, read
from infra.plan import CommitNote, EpochPlan, PlannedFile
from infra.shared_frames import SharedFrames
from pipelines import Node, Source


class TooManyBadRowsError(EpochRefusedError):
    """More of an epoch's rows are no records than the source allows; the files stay unread."""

    replan = True


@dataclass(frozen=True)
class IngestStep:
    """One source node.

    Attributes
    ----------
    changelog
        Location of the node's changelog.
    data
        Folder or URL that relative patterns start from.
    session
        Gives the session where files have to be listed by Spark.
    to_table
        From `joins.changelog`: the last row per key as columns of the folded table.
    judge
        Judges an epoch's rows before they are committed.
    """

    node: Node
    changelog: str
    log: EpochLog
    data: str
    session: Callable[[], SparkSession]
    to_table: Callable[[DataFrame], DataFrame]
    judge: Audit | None = None
    code_version: str = ""
    incarnation: int = 1

    @property
    def source(self) -> Source:
        """The declared source."""
        assert self.node.source is not None
        return self.node.source

    def consumed(self, upto: int) -> list[FileState]:
        """Files of the epochs that are committed."""
        refused = self.log.lines(self.node.name, "refused")
        plans = self.log.lines(self.node.name, "plan")
        return [
            FileState(f.path, f.length, f.modified_ms)
            for epoch, body in plans.items()
            if epoch <= upto and epoch not in refused
            for f in EpochPlan.model_validate_json(body).files
        ]

    def unread(self, committed: int | None = None) -> list[FileState]:
        """Files that no committed epoch has consumed; ValueError where one changed after it was."""
        if committed is None:
            found = last_note(self.changelog)
            committed = found[1].epoch if found else 0
        consumed = self.consumed(committed)
        files = discover(self.source.files, self.data, self.session)
        refuse_changed(consumed, files)
        return unconsumed(consumed, files)

    def plan(self, previous: CommitNote | None, version: int | None, epoch: int) -> EpochPlan | None:
        """Plan all files that are new; the first epoch is planned without any, to give the changelog its shape."""
        files = self.unread(previous.epoch if previous else 0)
        if not files and previous is not None:
            return None
        return EpochPlan(
            pipeline=self.node.pipeline.name,
            node=self.node.name,
            incarnation=self.incarnation,
            epoch=epoch,
            files=tuple(_planned(files)),
            output_version=version,
            ends=previous.ends if previous else {},
            code_version=self.code_version,
        )

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Read the planned files; what is no record goes to the dead-letter table."""
        files = [FileState(f.path, f.length, f.modified_ms) for f in plan.files]
        parsed = read(spark, self.source, self.node.partitions, files).parsed
        frames = SourceFrames(shared.keep(parsed))
        return StepFrames(frames.records, {"dead_letter": frames.dead})

    def audit(self, spark: SparkSession, plan: EpochPlan, rows: DataFrame, counts: Mapping[str, int]) -> Sequence[Any]:
        """Refuse the epoch where more rows are bad than the source allows."""
        bad, total = counts["dead_letter"], counts["dead_letter"] + counts["rows"]
        if bad > self.source.max_bad_share * total:
            raise TooManyBadRowsError(
                f"source '{self.node.pipeline.name}.{self.node.name}': {bad} of {total} rows in "
                f"{len(plan.files)} files are no records, more than max_bad_share="
                f"{self.source.max_bad_share}; nothing was loaded: mend the files or raise the share "
                f"(first files: {', '.join(f.path for f in plan.files[:3])})"
            )
        return self.judge(spark, plan, rows, counts) if self.judge else ()

    def flatten(self, changelog: DataFrame) -> DataFrame:
        """The last row per key as columns of the folded table."""
        return self.to_table(changelog)


def _planned(files: Iterable[FileState]) -> list[PlannedFile]:
    return [PlannedFile(path=f.path, length=f.length, modified_ms=f.modified_ms) for f in files]
