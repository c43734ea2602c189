"""Sources as steps of the commit protocol: files, each consumed once, become records of a changelog.

What is bad in the input is a dead letter and keeps nothing else from being loaded (``infra/sources/reading.py``). Two
things refuse an epoch: a file that was loaded and has changed since, for its records cannot be taken back, and more bad
rows than ``max_bad_share``. Of such an epoch the bad rows are kept, in the table ``rejected``, and nothing else. The
share is of rows: a file that cannot be read, or is a duplicate, does not count in it, for nobody knows how many rows it
has, and the sound files of the epoch would wait for it. Only a source that tolerates nothing (``max_bad_share=0``) is
refused for a file that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from rivermeet.infra.engine.interpretation import fit_compilation
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.declaration import new_columns
from rivermeet.infra.epochs.plan import CommitNote, EpochPlan
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.sources.dead_letters import GONE, rows_again
from rivermeet.infra.sources.discovery import FileState, discover, moved
from rivermeet.infra.sources.duplicates import duplicates, hashed, marked
from rivermeet.infra.sources.history import SourceStep, states
from rivermeet.infra.sources.landing.folder import new_folder
from rivermeet.infra.sources.reading import SourceFrames, read, read_all
from rivermeet.infra.sources.rejected_rows import Read, refuse_too_many


@dataclass(frozen=True)
class IngestStep(SourceStep):
    """One source node that reads files.

    Attributes
    ----------
    data
        Folder or URL that relative patterns start from.
    session
        Gives the session where files have to be listed by Spark.
    retry
        Whether open dead letters are planned, in place of new files.
    landing
        Folder of the node's landed lines; None: the engine reads all files.
    """

    data: str
    session: Callable[[], SparkSession]
    code_version: str = ""
    retry: bool = False
    landing: Path | None = None

    def check(self, plan: EpochPlan) -> str | None:
        """Why the plan cannot be run: a file of this machine is not what it was when it was planned."""
        found = next(moved(states(plan.files)), None)
        return None if found is None else f"file {found.path} was changed or removed after it was planned"

    def unread(self) -> list[FileState]:
        """Files that no committed epoch has consumed; ValueError where one changed after it was."""
        return self.so_far(self.note()).unread(self._found())

    def lost(self) -> str | None:
        """What a rebuild would lose of the records so far, for it can be read no more; None where nothing."""
        found = self.note()
        there = {state.path for state in self._found()}
        consumed = states(self.so_far(found).loaded)
        gone = [state.path for state in consumed if state.path not in there]
        return f"{len(gone)} of {len(consumed)} files that it consumed are gone (first: {gone[0]})" if gone else None

    def plan(self, previous: CommitNote | None, version: int | None, epoch: int) -> EpochPlan | None:
        """Plan all files that are new; the first epoch is planned without any, to give the changelog its shape."""
        so_far = self.so_far(previous)
        retries = so_far.open.epochs if self.retry else ()
        if self.retry:
            found = [state for state in self._found() if state.path in so_far.open.files]
            nothing = not retries
        else:
            found = so_far.unread(self._found())
            # A column that the source gets is new, also where no file is: what reads the source has to find it.
            nothing = not found and previous is not None and not new_columns(self.node, previous)
        if nothing:
            return None
        files = hashed(found)
        if files and self.source.duplicate_files == "dead_letter":
            files = marked(files, so_far.loaded, self.source.files.format)
        reads = {"files": tuple(files), "retries": retries, "code_version": self.code_version}
        return self.next_plan(previous, version, epoch, **reads)

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Read the planned files and letters; what is no record goes to the dead-letter table."""
        files, unread = states(plan.files), duplicates(plan.files)
        again: list[DataFrame] = []
        if plan.retries:
            again = rows_again(spark, self.dead_letters, self.source.files, plan.retries)
            before = self.consumed(plan.since, plan.previous_epoch)
            gone = before.open.files - {file.path for file in plan.files}
            files += [state for state in states(before.files) if state.path in gone]
            unread |= dict.fromkeys(gone, GONE)

        def kept(damaged: Mapping[str, str]) -> SourceFrames:
            landing = None if self.landing is None else new_folder(self.landing, plan.epoch)
            found = read(spark, self.source, self.node.partitions, files, {**unread, **damaged}, again, landing)
            fit_compilation(spark, plan.rows if found.count is None else found.count)
            return SourceFrames(shared.keep(found.parsed))

        found = read_all(kept, {state.path for state in files})
        frames = found.frames

        def accept(rows: int, sides: Mapping[str, int]) -> None:
            self._refuse_too_many(plan, found.dead_files, frames.dead, rows, sides["dead_letter"])

        # Most deliveries have no bad row: two actions less.
        without = frozenset({"dead_letter"} if not found.dead else ())
        return StepFrames(frames.records, {"dead_letter": frames.dead}, accept=accept, without_rows=without)

    def _refuse_too_many(self, plan: EpochPlan, unread_files: int, dead: DataFrame, rows: int, letters: int) -> None:
        """Refuse the epoch where more rows are bad than the source allows; letters that are retried are known."""
        share = self.source.max_bad_share
        bad = letters - (unread_files if share else len(duplicates(plan.files)))
        total = bad + rows
        if bad > share * total and not plan.retries:
            read = Read(f"{len(plan.files)} files", "line", "mend the files or raise the share")
            refuse_too_many(self.name, dead, self.rejected, plan, (bad, total, letters), share, read)

    def _found(self) -> Sequence[FileState]:
        return discover(self.source.files, self.data, self.session)
