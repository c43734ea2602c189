"""An epoch's plan: what it reads, to the offset and the version. Data, so that it can be kept, shown and run again."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

Offsets = dict[int, int]
"""Partition to last offset; a partition without records is absent (read it as -1)."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedFile(_Value):
    """A file as it was when it was planned; times in epoch millis, length in bytes."""

    path: str
    length: int
    modified_ms: int


class InputSlice(_Value):
    """The records ``(after, upto]`` of one input, in its changelog at ``version``.

    ``table_version`` pins the folded table that holds the input's records up to ``table_ends``; None means that
    state is folded from the changelog alone.
    """

    version: int
    after: Offsets
    upto: Offsets
    table_version: int | None = None
    table_ends: Offsets = {}

    @property
    def records(self) -> int:
        """How many records the slice holds: offsets are dense."""
        return sum(end - self.after.get(p, -1) for p, end in self.upto.items())


class EpochPlan(_Value):
    """All that one epoch of one node depends on.

    ``previous_epoch`` is the last committed one (0: none); ``ends`` and ``stream_time`` (ms) are the output's before
    the epoch, ``output_version`` its changelog's version then (None: not written yet).
    """

    pipeline: str
    node: str
    incarnation: int
    epoch: int
    previous_epoch: int = 0
    inputs: dict[str, InputSlice] = {}
    files: tuple[PlannedFile, ...] = ()
    output_version: int | None = None
    ends: Offsets = {}
    stream_time: Offsets = {}
    semantics: str = "3.1"
    code_version: str = ""


class CommitNote(_Value):
    """What a changelog's commit says of itself, in Delta's ``userMetadata``: the position that it makes visible.

    ``times`` is the highest timestamp of each partition so far (ms), ``stream_time`` that of what was consumed.
    """

    incarnation: int
    epoch: int
    ends: Offsets
    times: Offsets = {}
    stream_time: Offsets = {}
    consumed: dict[str, Offsets] = {}


def within(ends: Mapping[int, int], others: Mapping[int, int]) -> bool:
    """Whether ``ends`` is at or behind ``others`` in every partition."""
    return all(end <= others.get(partition, -1) for partition, end in ends.items())
