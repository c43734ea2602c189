"""A Delta table as a step of the commit protocol: a range of versions is planned, read once, and becomes records.

| the table has | the epoch |
|---|---|
| new versions | reads the rows that they append, or their change data feed |
| new versions without rows: OPTIMIZE, a property | is committed too: its plan says where the next one starts |
| nothing new | is not made |
| removed rows, removed files, become another table | is refused (``infra/sources/delta/unreadable.py``) |

The position is in the plan of the last committed epoch. A row that is not a record is a dead letter, like a row of a
file, and too many of them refuse the epoch. Unlike records of a topic, rows are not landed: the files of a version
never change, so an epoch that is run again reads the same rows, or is refused if a file is gone. Held by
``tests/infra/sources/delta/test_append.py`` and ``tests/infra/sources/test_faults.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.printable import redact
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.source_range import SourceRange
from rivermeet.infra.sources.delta.letters import letters_again
from rivermeet.infra.sources.delta.log import Commit
from rivermeet.infra.sources.delta.ranges import next_range
from rivermeet.infra.sources.delta.refusals import DeltaTableRefusedError, TablePositionLostError
from rivermeet.infra.sources.delta.rows import changes, no_rows, read_added, whole_version, without_needless
from rivermeet.infra.sources.delta.table import TableState, table_state
from rivermeet.infra.sources.delta.unreadable import another, unreadable
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.infra.sources.places import URL
from rivermeet.infra.sources.row_to_record import SourceFrames
from rivermeet.infra.sources.source_step import SourceStep
from rivermeet.infra.sources.standing import Standing, Unread
from rivermeet.pipelines import DeltaTable
from rivermeet.pipelines.errors import SourceError


@dataclass(frozen=True)
class DeltaStep(SourceStep[VersionRange]):
    """One source node that reads a Delta table.

    Attributes
    ----------
    data
        Folder or URL that a relative path starts from.
    """

    data: str
    read_word: ClassVar[str] = "table"
    unit: ClassVar[str] = "version"
    position_lost: ClassVar[type[EpochRefusedError]] = TablePositionLostError
    ranges: ClassVar[type[SourceRange]] = VersionRange

    @property
    def table(self) -> DeltaTable:
        """The declared table."""
        return self.source.delta

    @property
    def path(self) -> str:
        """Its location."""
        path = self.table.path
        if redact(path) != path:
            raise SourceError(
                f"table path '{redact(path)}' holds a credential, which plans and logs would show; leave it out and "
                "give it to the engine, for S3 as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                table=redact(path),
            )
        there = path if URL.match(path) or os.path.isabs(path) else f"{self.data.rstrip('/')}/{path}"
        return there.rstrip("/")

    def state(self) -> TableState:
        """The current state of the table."""
        return table_state(self.path, self.name)

    def find_standing(self) -> Standing:
        """The number of unread versions."""
        before, state = self.position(self.note()), self.state()
        known = before.end if before is not None and before.id == state.id else -1
        read = "nothing read" if before is None else f"read up to version {before.end}"
        return Standing(max(state.latest - known, 0), (f"table {self.path}: {read}, newest version {state.latest}",))

    def find_changed(self) -> Unread | None:
        """The unread versions that change rows; None if none was read yet."""
        if self.note() is None:
            return None
        found = [one for one in self.find_unread() if one.feed_files]
        return Unread(len(found), "versions", found[0].timestamp if found else None)

    def find_unread(self) -> Sequence[Commit]:
        """The unread commits; refused if the next run would be."""
        before, state = self.position(self.note()), self.state()
        next_range(before, state, self.table, self.name, self.accept_loss)
        return state.commits(state.first if before is None else before.end + 1)

    def next_range(self, previous: CommitNote | None) -> VersionRange | None:
        """All new versions."""
        before = self.position(previous)
        found = next_range(before, self.state(), self.table, self.name, self.accept_loss)
        moved = before is not None and (before.id, before.end) != (found.id, found.end)
        return found if found.unread or moved or self.has_new_columns(previous) else None

    def range_again(self, previous: CommitNote | None) -> VersionRange | None:
        """No version."""
        before = self.position(previous)
        nothing = {"snapshot": None, "passed": (), "lost": None, "rows": 0}
        return before and before.model_copy(update={"start": before.end + 1, **nothing})

    def unreadable(self, planned: VersionRange) -> DeltaTableRefusedError | None:
        """The refusal of versions that can no longer be read; None if they can."""
        return unreadable(planned, self.state(), self.table, self.name) if planned.unread else None

    def describe_loss(self) -> str | None:
        """Describe the records that a rebuild would lose because they can no longer be read, or None."""
        ranges = self.ranges_of(self.so_far(self.note()).plans)
        if not ranges:
            return None
        why = another(ranges[-1], self.state(), self.name)
        return None if why is None else f"what it read of table {ranges[-1].path} is gone ({type(why).__name__})"

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Read the planned versions, or parse the planned letters again; rows that are not records are dead letters."""
        planned = plan.reads
        assert isinstance(planned, VersionRange), "a plan of a table has a range"
        self.refuse_unreadable(planned)
        try:
            parsed = shared.keep(reduce(DataFrame.unionByName, self._parse(spark, plan, planned)))
            found = self.finish(plan, SourceFrames(parsed))
        except PySparkException:
            self.refuse_unreadable(planned)
            raise
        # If it was recreated while it was read, it may have given rows of both tables.
        self.refuse_unreadable(planned)
        return found

    def within(self, plan: EpochPlan) -> str:
        """The table."""
        return f"table {self.path}"

    def _parse(self, spark: SparkSession, plan: EpochPlan, planned: VersionRange) -> Iterator[DataFrame]:
        """Frames as `to_records` gives them, one at least."""
        table = self.table
        rows = list(letters_again(spark, self.paths.dead_letter, plan.retries, table)) if plan.retries else []
        if planned.snapshot is not None:
            rows.append(whole_version(spark, table, planned))
        found = (read_added if table.changes == "append" else changes)(spark, table, planned)
        yield from (self.records_of(frame) for frame in rows)
        if found is not None:
            records = self.records_of(found)
            yield records if table.changes == "append" else without_needless(records)
        if found is None and not rows:
            yield self.records_of(no_rows(spark, table, planned))
