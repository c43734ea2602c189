"""What a source has consumed so far: its committed plans, and what came to nothing of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from infra.epochs.log import EpochLog
from infra.epochs.plan import EpochPlan, PlannedFile
from infra.sources.dead_letters import OpenLetters, open_letters
from infra.sources.discovery import FileState, changed, refuse_changed, unconsumed


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


def states(files: Iterable[PlannedFile]) -> list[FileState]:
    """The files as they were seen when they were planned."""
    return [FileState(f.path, f.length, f.modified_ms) for f in files]
