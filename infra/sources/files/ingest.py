"""Files as a step of the commit protocol: each is consumed once, and becomes records of a changelog.

Bad input is a dead letter and does not prevent the rest from being loaded (``infra/sources/files/reading.py``). Two
things refuse an epoch: a loaded file that has changed since, because its records cannot be taken back, and more bad
rows than ``max_bad_share``. Of such an epoch only the bad rows are kept, in the table ``rejected``. The share is of
rows: a file that cannot be read, or is a duplicate, does not count, because its number of rows is unknown, and the
valid files of the epoch would wait for it. Only a source without tolerance (``max_bad_share=0``) is refused for a file
that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.engine.fit import fit_compilation
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.source_range import SourceRange
from rivermeet.infra.sources.files.discovery import (
    FileState,
    discover,
    find_changed,
    find_moved,
    refuse_changed,
    select_unconsumed,
)
from rivermeet.infra.sources.files.file_list import FileList, PlannedFile, duplicates, hash_files, mark_duplicates
from rivermeet.infra.sources.files.reading import GONE, read, read_all, rows_again
from rivermeet.infra.sources.landing_folder import new_folder
from rivermeet.infra.sources.row_to_record import SourceFrames
from rivermeet.infra.sources.source_step import SourceHistory, SourceStep
from rivermeet.infra.sources.standing import Standing
from rivermeet.pipelines.plural import pluralize


@dataclass(frozen=True)
class IngestStep(SourceStep[FileList]):
    """One source node that reads files.

    Attributes
    ----------
    data
        Folder or URL that relative patterns start from.
    session
        Opens the session if Spark has to list files.
    landing
        Folder of the node's landed lines; None: the engine reads all files.
    """

    data: str
    session: Callable[[], SparkSession]
    landing: Path | None = None
    read_word: ClassVar[str] = "folder"
    unit: ClassVar[str] = "line"
    cure: ClassVar[str] = "correct the files or raise the share"
    ranges: ClassVar[type[SourceRange]] = FileList

    def explain_skip(self, plan: EpochPlan) -> str | None:
        """Why the plan cannot be run: a local file has changed since it was planned."""
        found = next(find_moved(states(_files(plan))), None)
        return None if found is None else f"file {found.path} was changed or removed after it was planned"

    def find_unread(self) -> list[FileState]:
        """Files that no committed epoch has consumed; ValueError if a consumed one changed."""
        return find_unread(self.so_far(self.note()), self._discover())

    def find_standing(self) -> Standing:
        """The number of unread files, of a source that has read any."""
        return Standing(len(self.find_unread()) if self.note() is not None else None)

    def describe_unread(self) -> str:
        """Describe the number of files."""
        try:
            files = len(self.find_unread())
        except ValueError:  # a file changed after it was read: the next run reports it
            return ""
        return pluralize(files, "file") if files else ""

    def describe_loss(self) -> str | None:
        """Describe the files that a rebuild would lose because they are gone, or None."""
        found = self.note()
        there = {state.path for state in self._discover()}
        consumed = states(select_loaded(self.so_far(found)))
        gone = [state.path for state in consumed if state.path not in there]
        files = pluralize(len(consumed), "file")
        return f"of {files} that it consumed, {len(gone):,} gone (first: {gone[0]})" if gone else None

    def next_range(self, previous: CommitNote | None) -> FileList | None:
        """All files that are new; the first epoch may have none, to give the changelog its shape."""
        so_far = self.so_far(previous)
        found = find_unread(so_far, self._discover())
        return self._plan_files(found, so_far) if found or self.has_new_columns(previous) else None

    def range_again(self, previous: CommitNote | None) -> FileList | None:
        """The files that are dead as a whole."""
        so_far = self.so_far(previous)
        return self._plan_files([state for state in self._discover() if state.path in so_far.open.files], so_far)

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Read the planned files and letters; rows that are not records go to the dead-letter table."""
        planned = _files(plan)
        files, not_read = states(planned), duplicates(planned)
        again: list[DataFrame] = []
        if plan.retries:
            again = rows_again(spark, self.paths.dead_letter, self.source.files, plan.retries)
            before = self.read_history(plan.since, plan.previous_epoch)
            gone = before.open.files - {file.path for file in planned}
            files += [state for state in states(last_planned(before)) if state.path in gone]
            not_read |= dict.fromkeys(gone, GONE)

        def keep(damaged: Mapping[str, str]) -> SourceFrames:
            landing = None if self.landing is None else new_folder(self.landing, plan.epoch)
            found = read(spark, self.source, self.node.partitions, files, {**not_read, **damaged}, again, landing)
            fit_compilation(spark, plan.rows if found.count is None else found.count)
            return SourceFrames(shared.keep(found.parsed))

        frames, dead, dead_files = read_all(keep, {state.path for state in files})
        whole = dead_files if self.source.max_bad_share else len(duplicates(planned))
        return self.finish(plan, frames, dead=dead, not_rows=whole)

    def _plan_files(self, found: Iterable[FileState], so_far: SourceHistory) -> FileList:
        files = hash_files(found)
        if files and self.source.duplicate_files == "dead_letter":
            files = mark_duplicates(files, select_loaded(so_far), self.source.files.format)
        return FileList(files=tuple(files))

    def _discover(self) -> Sequence[FileState]:
        return discover(self.source.files, self.data, self.session)


def _files(plan: EpochPlan) -> tuple[PlannedFile, ...]:
    return plan.reads.files if isinstance(plan.reads, FileList) else ()


def last_planned(so_far: SourceHistory) -> Sequence[PlannedFile]:
    """Each file as it was planned last."""
    return list({file.path: file for plan in so_far.plans for file in _files(plan)}.values())


def select_loaded(so_far: SourceHistory) -> list[PlannedFile]:
    """Files that were read, without those that are dead as a whole."""
    return [file for file in last_planned(so_far) if file.path not in so_far.open.files and not file.duplicate_of]


def find_unread(so_far: SourceHistory, found: Sequence[FileState]) -> list[FileState]:
    """New files; ValueError if a loaded one has changed.

    A file that is dead as a whole was not loaded: its replacement is new.
    """
    consumed = states(last_planned(so_far))
    if find_changed(consumed, found):
        replaced = {now.path for _, now in find_changed(consumed, found)} & so_far.open.files
        consumed = [state for state in consumed if state.path not in replaced]
    refuse_changed(consumed, found)
    return select_unconsumed(consumed, found)


def states(files: Iterable[PlannedFile]) -> list[FileState]:
    """The state of the files when they were planned."""
    return [FileState(f.path, f.length, f.modified_ms) for f in files]
