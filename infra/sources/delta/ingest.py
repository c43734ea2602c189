"""A Delta table as a step of the commit protocol: a range of versions is planned, read once, and becomes records.

| the table has | the epoch |
|---|---|
| new versions | reads what they append, or what its change data feed has of them |
| new versions without rows: OPTIMIZE, a property | is made all the same: its plan says where the next one starts |
| nothing new | is not made |
| removed rows, removed files, become another table | is refused (``infra/sources/delta/unreadable.py``) |

The position is in the plan of the last committed epoch. A row that is no record is a dead letter, as a row of a file
is, and too many of them refuse the epoch. What is read is not landed, as of a topic: the files of a version are never
written to, so that an epoch that is run again reads the same rows, or finds one gone and is refused. Held by
``tests/infra/sources/delta/test_append.py`` and ``tests/infra/sources/delta/test_faults.py``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.declaration import new_columns
from rivermeet.infra.epochs.plan import CommitNote, EpochPlan, VersionRange
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.redaction import redacted
from rivermeet.infra.sources.delta.letters import letters_again
from rivermeet.infra.sources.delta.log import Commit
from rivermeet.infra.sources.delta.old_images import without_needless
from rivermeet.infra.sources.delta.ranges import next_range
from rivermeet.infra.sources.delta.refusals import TablePositionLostError
from rivermeet.infra.sources.delta.rows import added, changes, no_rows, whole_version
from rivermeet.infra.sources.delta.table import TableState, table_state
from rivermeet.infra.sources.delta.unreadable import another, unreadable
from rivermeet.infra.sources.history import SourceStep
from rivermeet.infra.sources.reading import SourceFrames, partition_of
from rivermeet.infra.sources.rejected_rows import Read, refuse_too_many
from rivermeet.infra.sources.row_to_record import to_records
from rivermeet.pipelines import DeltaTable

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True)
class DeltaStep(SourceStep):
    """One source node that reads a Delta table.

    Attributes
    ----------
    data
        Folder or URL that a relative path starts from.
    retry
        Whether open dead letters are planned, in place of new versions.
    accept_loss
        Whether versions that cannot be read are passed over.
    """

    data: str
    code_version: str = ""
    retry: bool = False
    accept_loss: bool = False

    @property
    def table(self) -> DeltaTable:
        """The declared table."""
        return self.source.delta

    @property
    def path(self) -> str:
        """Where it lies."""
        path = self.table.path
        if redacted(path) != path:
            raise ValueError(
                f"table path '{redacted(path)}' holds a credential, which plans and logs would show; leave it out and "
                "give it to the engine, for S3 as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        there = path if _URL.match(path) or os.path.isabs(path) else f"{self.data.rstrip('/')}/{path}"
        return there.rstrip("/")

    def position(self, note: CommitNote | None) -> VersionRange | None:
        """The range that the node has read last; None before the first.

        Raises
        ------
        TablePositionLostError
            Where the epoch log does not have the plan of the last committed epoch.
        """
        return self.last_read(note, "table", lambda plan: plan.delta, TablePositionLostError)

    def state(self) -> TableState:
        """The table as it stands."""
        return table_state(self.path, self.name)

    def behind(self) -> int:
        """Versions that were not read yet."""
        before, state = self.position(self.note()), self.state()
        known = before.end if before is not None and before.id == state.id else -1
        return max(state.latest - known, 0)

    def unread(self) -> Sequence[Commit]:
        """The commits that were not read yet; refused where the next run would be."""
        before, state = self.position(self.note()), self.state()
        next_range(before, state, self.table, self.name, self.accept_loss)
        return state.commits(state.first if before is None else before.end + 1)

    def plan(self, previous: CommitNote | None, version: int | None, epoch: int) -> EpochPlan | None:
        """Plan all new versions."""
        before = self.position(previous)
        retries = self.so_far(previous).open.epochs if self.retry else ()
        if self.retry:
            if not retries or before is None:
                return None
            nothing = {"start": before.end + 1, "snapshot": None, "passed": (), "lost": None, "rows": 0}
            found = before.model_copy(update=nothing)
        else:
            found = next_range(before, self.state(), self.table, self.name, self.accept_loss)
            # A column that the source gets is new, also where no version is: what reads the source has to find it.
            due = found.unread or (before is not None and (before.id, before.end) != (found.id, found.end))
            if previous is not None and not due and not new_columns(self.node, previous):
                return None
        return self.next_plan(previous, version, epoch, delta=found, retries=retries, code_version=self.code_version)

    def check(self, plan: EpochPlan) -> str | None:
        """Why a plan is passed over: what it reads is gone, and that was accepted. Else reading it refuses it."""
        if not self.accept_loss or plan.delta is None or not plan.delta.unread:
            return None
        why = unreadable(plan.delta, self.state(), self.table, self.name)
        return None if why is None else str(why)

    def lost(self) -> str | None:
        """What a rebuild would lose of the records so far, for it can be read no more; None where nothing."""
        ranges = [plan.delta for plan in self.so_far(self.note()).plans if plan.delta is not None]
        if not ranges:
            return None
        why = another(self.state(), ranges[-1].id, ranges[-1].path, ranges[-1].end, self.name)
        return None if why is None else f"what it read of table {ranges[-1].path} is gone ({type(why).__name__})"

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Read the planned versions, or parse the planned letters again; what is no record is a dead letter."""
        planned = plan.delta
        assert planned is not None, "a plan of a table has a range"
        self._refuse_unreadable(planned)
        try:
            parsed = shared.keep(reduce(DataFrame.unionByName, self._parsed(spark, plan, planned)))
            frames = SourceFrames(parsed)
            ((dead,),) = parsed.agg(F.count_if(F.isnotnull("reason"))).collect()
        except PySparkException:
            self._refuse_unreadable(planned)
            raise
        # Made anew while it was read, it may have given rows of both.
        self._refuse_unreadable(planned)

        def accept(rows: int, sides: Mapping[str, int]) -> None:
            self._refuse_too_many(plan, frames.dead, rows, sides["dead_letter"])

        without = frozenset({"dead_letter"} if not dead else ())
        return StepFrames(frames.records, {"dead_letter": frames.dead}, accept=accept, without_rows=without)

    def _refuse_unreadable(self, planned: VersionRange) -> None:
        why = unreadable(planned, self.state(), self.table, self.name) if planned.unread else None
        if why is not None:
            raise why

    def _parsed(self, spark: SparkSession, plan: EpochPlan, planned: VersionRange) -> Iterator[DataFrame]:
        """Frames as `to_records` gives them, one at least."""
        table = self.table
        rows = list(letters_again(spark, self.dead_letters, plan.retries, table)) if plan.retries else []
        if planned.snapshot is not None:
            rows.append(whole_version(spark, table, planned))
        found = (added if table.changes == "append" else changes)(spark, table, planned)
        yield from (self._records(frame) for frame in rows)
        if found is not None:
            records = self._records(found)
            yield records if table.changes == "append" else without_needless(records)
        if found is None and not rows:
            yield self._records(no_rows(spark, table, planned))

    def _records(self, rows: DataFrame) -> DataFrame:
        parsed = to_records(rows, self.source)
        return parsed.withColumn("partition", partition_of(F.col("key"), self.node.partitions))

    def _refuse_too_many(self, plan: EpochPlan, dead: DataFrame, rows: int, letters: int) -> None:
        """Refuse the epoch where more rows are bad than the source allows; letters that are retried are known."""
        share, total = self.source.max_bad_share, letters + rows
        if letters > share * total and not plan.retries:
            read = Read(f"table {self.path}", "version", "mend the declaration or raise the share")
            refuse_too_many(self.name, dead, self.rejected, plan, (letters, total, letters), share, read)
