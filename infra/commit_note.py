"""The note of a changelog's commit: the position that the commit makes visible, as JSON in Delta's log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from pydantic import BaseModel

Offsets = dict[int, int]
"""Partition to last offset; a partition without records is absent (read it as -1)."""


class Skipped(BaseModel, frozen=True, extra="forbid"):
    """A record of an input that no row can be made of, and the error that says so (`assets.epoch.failing_records`)."""

    side: str
    partition: int
    offset: int
    reason: str


class Decision(BaseModel, frozen=True, extra="forbid"):
    """What a person decided about an epoch that its audit refused (``assets/refused/states.py``).

    It is of one ``attempt``: of the rows with this ``digest`` and of these broken ``invariants``. ``by`` is the name of
    a user, ``at`` the time (ISO 8601), ``loss`` what a drop loses.
    """

    how: Literal["release", "drop"]
    epoch: int
    attempt: int
    invariants: tuple[str, ...]
    digest: str
    by: str
    at: str
    loss: str = ""

    @property
    def drops(self) -> bool:
        """Whether the epoch is committed without its rows."""
        return self.how == "drop"

    @property
    def summary(self) -> str:
        """Who decided what, and when."""
        return f"{'dropped' if self.drops else 'released'} by {self.by} at {self.at}"

    def accepts(self, digest: str, broken: Collection[str]) -> bool:
        """Whether rows may be committed although they break these invariants."""
        return not self.drops and digest == self.digest and set(broken) <= set(self.invariants)


class CommitNote(BaseModel, frozen=True, extra="forbid"):
    """The note of a changelog's commit, in Delta's ``userMetadata``: the position that it makes visible.

    ``times`` is the highest timestamp of each partition so far (ms), ``stream_time`` that of what was consumed, and
    ``incarnations`` the incarnation of each input that ``consumed`` counts in. ``since`` as in `EpochPlan`. ``decided``
    is there where the epoch was refused, and a person decided about it.
    """

    incarnation: int
    epoch: int
    ends: Offsets
    times: Offsets = {}
    stream_time: Offsets = {}
    consumed: dict[str, Offsets] = {}
    incarnations: dict[str, int] = {}
    since: int = 1
    declared: dict[str, str] = {}
    grace: int | None = None
    skipped: tuple[Skipped, ...] = ()
    decided: Decision | None = None


def within(ends: Mapping[int, int], others: Mapping[int, int]) -> bool:
    """Whether ``ends`` is at or behind ``others`` in every partition."""
    return all(end <= others.get(partition, -1) for partition, end in ends.items())
