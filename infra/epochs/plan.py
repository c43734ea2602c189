"""An epoch's plan: the offsets and versions that it reads. Data that can be stored, shown and run again."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version as package_version
from typing import Any

from pydantic import BaseModel, model_validator

from rivermeet.infra.commit_note import CommitNote, Offsets, Skipped
from rivermeet.infra.source_range import AnyRange


class InputSlice(BaseModel, frozen=True, extra="forbid"):
    """The records ``(after, upto]`` of one input, in its changelog at ``version``.

    ``table_version`` pins the folded table that holds the input's records up to ``table_ends``; None means that
    state is folded from the changelog alone. ``incarnation`` is the input's: offsets of another one mean other records.
    """

    version: int
    after: Offsets
    upto: Offsets
    table_version: int | None = None
    table_ends: Offsets = {}
    incarnation: int = 1

    @property
    def records(self) -> int:
        """The number of records of the slice: offsets are dense."""
        return sum(end - self.after.get(p, -1) for p, end in self.upto.items())

    @property
    def consumed(self) -> int:
        """The number of records of the input's incarnation that have been read, including the slice."""
        return sum(end + 1 for end in self.upto.values())


_FIELDS = frozenset(("files", "topic", "delta", "wal"))
"""Fields of earlier plans, one for each kind of source, in place of ``reads``."""


class EpochPlan(BaseModel, frozen=True, extra="forbid"):
    """Everything that one epoch of one node depends on.

    ``previous_epoch`` is the last committed one of the incarnation (0: none); ``ends`` and ``stream_time`` (ms) are the
    output's before the epoch, ``output_version`` its changelog's version then (None: not written yet). An incarnation
    begins with epoch ``since``, which replaces everything before. ``declared`` is the node's declaration as flat text;
    ``grace`` (ms) applies to the whole incarnation if it was rebuilt with another one than declared.
    ``reads`` is what a source reads. The open dead letters of the epochs ``retries`` are read again. Records
    ``skipped`` stay out of this epoch and of all later ones of the incarnation.
    """

    pipeline: str
    node: str
    incarnation: int
    epoch: int
    since: int = 1
    previous_epoch: int = 0
    inputs: dict[str, InputSlice] = {}
    reads: AnyRange | None = None
    retries: tuple[int, ...] = ()
    output_version: int | None = None
    ends: Offsets = {}
    stream_time: Offsets = {}
    semantics: str = "3.1"
    code_version: str = ""
    declared: dict[str, str] = {}
    grace: int | None = None
    skipped: tuple[Skipped, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, given: Any) -> Any:
        """Read a plan in the earlier format: files, if it has no inputs and no other kind of source."""
        if not isinstance(given, Mapping) or not _FIELDS & given.keys():
            return given
        old = {kind: given[kind] for kind in _FIELDS & given.keys()}
        files = {"files": {"files": old.get("files", ())}} if not given.get("inputs") else None
        reads = next(({kind: old[kind]} for kind in ("topic", "delta", "wal") if old.get(kind) is not None), files)
        return {**{name: value for name, value in given.items() if name not in _FIELDS}, "reads": reads}

    @classmethod
    def after(cls, previous: CommitNote | None, version: int | None, **fields: Any) -> EpochPlan:
        """The plan that continues from a commit, which created ``version`` of the changelog; ``None``: the first.

        The other fields are its node, its epoch and what it reads.
        """
        fields["code_version"] = package_version("rivermeet")
        if previous is None:
            return cls(incarnation=1, output_version=version, **fields)
        return cls(
            incarnation=previous.incarnation,
            since=previous.since,
            previous_epoch=previous.epoch,
            output_version=version,
            ends=previous.ends,
            stream_time=previous.stream_time,
            grace=previous.grace,
            skipped=previous.skipped,
            **fields,
        )

    @property
    def records(self) -> int:
        """About how many records the epoch reads."""
        of_source = self.reads.records if self.reads is not None else 0
        return sum(part.records for part in self.inputs.values()) + of_source

    @property
    def rows(self) -> int:
        """An estimate of the rows that its queries read: for an operator, all of its inputs and its changelog."""
        if not self.inputs:
            return self.records
        known = sum(part.consumed for part in self.inputs.values()) + sum(end + 1 for end in self.ends.values())
        return self.records + known

    @property
    def replaces(self) -> bool:
        """Whether the epoch begins a new incarnation: its commit replaces the changelog."""
        return self.incarnation > 1 and self.epoch == self.since

    def begin_incarnation(self, incarnation: int, grace: int | None) -> EpochPlan:
        """The same plan, as the first of a new incarnation."""
        return self.model_copy(update={"incarnation": incarnation, "since": self.epoch, "grace": grace})
