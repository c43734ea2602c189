"""What a source has consumed so far: its committed plans, and what came to nothing of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from rivermeet.infra.delta.io import last_note
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.plan import CommitNote, EpochPlan, PlannedFile
from rivermeet.infra.epochs.refusal import EpochRefusedError
from rivermeet.infra.sources.dead_letters import OpenLetters, open_letters
from rivermeet.infra.sources.discovery import FileState, changed, refuse_changed, unconsumed
from rivermeet.pipelines import Node, Source

_Read = TypeVar("_Read")


@dataclass(frozen=True)
class SourceHistory:
    """The committed plans of a source's incarnation, oldest first, and where its dead letters lie."""

    plans: Sequence[EpochPlan]
    dead_letters: str

    @cached_property
    def open(self) -> OpenLetters:
        """Dead letters that no epoch has taken up again."""
        return open_letters(self.dead_letters, self.plans)

    @cached_property
    def files(self) -> Sequence[PlannedFile]:
        """Each file as it was planned last."""
        return list({file.path: file for plan in self.plans for file in plan.files}.values())

    @property
    def loaded(self) -> list[PlannedFile]:
        """Files that were read; not those that are dead as such."""
        return [file for file in self.files if file.path not in self.open.files and not file.duplicate_of]

    def unread(self, found: Sequence[FileState]) -> list[FileState]:
        """Files that are new; ValueError where one that was loaded has changed.

        Nothing was loaded of a file that is dead as such: what has taken its place is new.
        """
        consumed = states(self.files)
        if changed(consumed, found):
            replaced = {now.path for _, now in changed(consumed, found)} & self.open.files
            consumed = [state for state in consumed if state.path not in replaced]
        refuse_changed(consumed, found)
        return unconsumed(consumed, found)


def history(log: EpochLog, node: str, dead_letters: str, since: int, upto: int) -> SourceHistory:
    """The history of the source ``node`` from epoch ``since`` to ``upto``, which is committed."""
    refused = log.lines(node, "refused", since - 1)
    plans = log.lines(node, "plan", since - 1)
    committed = [body for epoch, body in plans.items() if epoch <= upto and epoch not in refused]
    return SourceHistory([EpochPlan.model_validate_json(body) for body in committed], dead_letters)


@dataclass(frozen=True)
class SourceStep:
    """What the steps of all sources share: where the node's tables lie, and what it has consumed.

    Attributes
    ----------
    changelog
        Location of the node's changelog.
    """

    node: Node
    changelog: str
    log: EpochLog

    @property
    def source(self) -> Source:
        """The declared source."""
        assert self.node.source is not None
        return self.node.source

    @property
    def name(self) -> str:
        """The source as messages name it."""
        return f"{self.node.pipeline.name}.{self.node.name}"

    @property
    def dead_letters(self) -> str:
        """Location of the node's dead letters: beside its changelog."""
        return f"{self.changelog.removesuffix('/changelog')}/dead_letter"

    @property
    def rejected(self) -> str:
        """Location of the bad rows of the newest epoch that was refused for them."""
        return f"{self.changelog.removesuffix('/changelog')}/rejected"

    def open_letters(self) -> OpenLetters:
        """Dead letters that no epoch has taken up again."""
        return self.so_far(self.note()).open

    def without_failing_records(self, spark: SparkSession, plan: EpochPlan, error: Exception) -> EpochPlan | None:
        """None: a row that is no record is a dead letter, and fails nothing."""
        return None

    def give_up(self, is_running: Callable[[Node], bool]) -> None:
        """Nothing: what a source reads knows nothing of it."""

    def next_plan(self, previous: CommitNote | None, version: int | None, epoch: int, **reads: Any) -> EpochPlan:
        """The plan that goes on from a commit; ``reads`` are its fields that say what it reads."""
        of = {"pipeline": self.node.pipeline.name, "node": self.node.name, "epoch": epoch}
        return EpochPlan.after(previous, version, **of, **reads)

    def last_read(
        self, note: CommitNote | None, what: str, of: Callable[[EpochPlan], _Read | None], lost: type[EpochRefusedError]
    ) -> _Read | None:
        """What the last committed epoch has read; None before the first, or where none has read any such thing.

        Parameters
        ----------
        what, of
            What is read, in a word, and what a plan says of it.
        lost
            Raised where the epoch log does not have the plan.
        """
        if note is None:
            return None
        body = self.log.lines(self.node.name, "plan", note.epoch - 1).get(note.epoch)
        if body is None:
            raise lost(
                f"source '{self.name}': the epoch log has no plan of epoch {note.epoch}, so that nobody knows up to "
                f"where its {what} was read: put the log back ({self.log.path}), or run "
                f"`rivermeet rebuild {self.node.pipeline.name} --select {self.node.name}`"
            )
        last = of(EpochPlan.model_validate_json(body))
        if last is not None:
            return last
        # The source has read something else since, or did so before.
        return next((read for plan in reversed(self.so_far(note).plans) if (read := of(plan)) is not None), None)

    def note(self) -> CommitNote | None:
        """The note of the node's newest commit."""
        found = last_note(self.changelog)
        return found[1] if found else None

    def so_far(self, note: CommitNote | None) -> SourceHistory:
        """What the incarnation has consumed up to a commit."""
        return self.consumed(note.since, note.epoch) if note else SourceHistory((), self.dead_letters)

    def consumed(self, since: int, upto: int) -> SourceHistory:
        """What committed epochs of an incarnation have consumed."""
        return history(self.log, self.node.name, self.dead_letters, since, upto)


def states(files: Iterable[PlannedFile]) -> list[FileState]:
    """The files as they were seen when they were planned."""
    return [FileState(f.path, f.length, f.modified_ms) for f in files]
