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

from pyspark.sql import DataFrame, SparkSession

from infra.delta.io import last_note
from infra.engine.shared_frames import SharedFrames
from infra.epochs.declaration import new_columns
from infra.epochs.log import EpochLog
from infra.epochs.plan import CommitNote, EpochPlan
from infra.epochs.refusal import EpochRefusedError
from infra.epochs.step import StepFrames
from infra.sources.dead_letters import GONE, OpenLetters, rows_again
from infra.sources.discovery import FileState, discover, moved
from infra.sources.duplicates import duplicates, hashed, marked
from infra.sources.history import SourceHistory, history, states
from infra.sources.reading import SourceFrames, read, read_all
from infra.sources.rejected_rows import first_bad_rows, reject
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
    retry
        Whether open dead letters are planned, in place of new files.
    """

    node: Node
    changelog: str
    log: EpochLog
    data: str
    session: Callable[[], SparkSession]
    code_version: str = ""
    retry: bool = False

    @property
    def source(self) -> Source:
        """The declared source."""
        assert self.node.source is not None
        return self.node.source

    @property
    def dead_letters(self) -> str:
        """Location of the node's dead letters: beside its changelog."""
        return f"{self.changelog.removesuffix('/changelog')}/dead_letter"

    @property
    def rejected(self) -> str:
        """Location of the bad rows of the newest epoch that was refused for them."""
        return f"{self.changelog.removesuffix('/changelog')}/rejected"

    def check(self, plan: EpochPlan) -> str | None:
        """Why the plan cannot be run: a file of this machine is not what it was when it was planned."""
        found = next(moved(states(plan.files)), None)
        return None if found is None else f"file {found.path} was changed or removed after it was planned"

    def consumed(self, since: int, upto: int) -> list[FileState]:
        """Files that committed epochs of an incarnation have loaded."""
        return states(self._history(since, upto).loaded)

    def unread(self) -> list[FileState]:
        """Files that no committed epoch has consumed; ValueError where one changed after it was."""
        return self._so_far(self._note()).unread(self._found())

    def open_letters(self) -> OpenLetters:
        """Dead letters that no epoch has taken up again."""
        return self._so_far(self._note()).open

    def plan(self, previous: CommitNote | None, version: int | None, epoch: int) -> EpochPlan | None:
        """Plan all files that are new; the first epoch is planned without any, to give the changelog its shape."""
        so_far = self._so_far(previous)
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
        return EpochPlan(
            pipeline=self.node.pipeline.name,
            node=self.node.name,
            incarnation=previous.incarnation if previous else 1,
            epoch=epoch,
            since=previous.since if previous else 1,
            previous_epoch=previous.epoch if previous else 0,
            files=tuple(files),
            retries=retries,
            output_version=version,
            ends=previous.ends if previous else {},
            code_version=self.code_version,
        )

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Read the planned files and letters; what is no record goes to the dead-letter table."""
        files, unread = states(plan.files), duplicates(plan.files)
        again: list[DataFrame] = []
        if plan.retries:
            again = rows_again(spark, self.dead_letters, self.source.files, plan.retries)
            before = self._history(plan.since, plan.previous_epoch)
            gone = before.open.files - {file.path for file in plan.files}
            files += [state for state in states(before.files) if state.path in gone]
            unread |= dict.fromkeys(gone, GONE)

        def kept(damaged: Mapping[str, str]) -> SourceFrames:
            found = read(spark, self.source, self.node.partitions, files, {**unread, **damaged}, again)
            return SourceFrames(shared.keep(found.parsed))

        found = read_all(kept, {state.path for state in files})
        frames = found.frames

        def accept(rows: int, sides: Mapping[str, int]) -> None:
            self._refuse_too_many(plan, found.dead_files, frames.dead, rows, sides["dead_letter"])

        # Most deliveries have no bad row: two actions less.
        without = frozenset({"dead_letter"} if not found.dead else ())
        return StepFrames(frames.records, {"dead_letter": frames.dead}, accept=accept, without_rows=without)

    def without_failing_records(self, spark: SparkSession, plan: EpochPlan, error: Exception) -> EpochPlan | None:
        """None: a row that is no record is a dead letter, and fails nothing."""
        return None

    def _refuse_too_many(self, plan: EpochPlan, unread_files: int, dead: DataFrame, rows: int, letters: int) -> None:
        """Refuse the epoch where more rows are bad than the source allows; letters that are retried are known."""
        share = self.source.max_bad_share
        bad = letters - (unread_files if share else len(duplicates(plan.files)))
        total = bad + rows
        if bad > share * total and not plan.retries:
            reject(dead, self.rejected, plan)
            first = first_bad_rows(dead, letters)
            raise TooManyBadRowsError(
                f"source '{self.node.pipeline.name}.{self.node.name}': {bad} of {total} rows in "
                f"{len(plan.files)} files are no records, more than max_bad_share={share}; nothing was loaded: mend "
                f"the files or raise the share. {first}. All are kept in {self.rejected}"
            )

    def _note(self) -> CommitNote | None:
        found = last_note(self.changelog)
        return found[1] if found else None

    def _so_far(self, note: CommitNote | None) -> SourceHistory:
        return self._history(note.since, note.epoch) if note else SourceHistory((), self.dead_letters)

    def _history(self, since: int, upto: int) -> SourceHistory:
        return history(self.log, self.node.name, self.dead_letters, since, upto)

    def _found(self) -> Sequence[FileState]:
        return discover(self.source.files, self.data, self.session)
