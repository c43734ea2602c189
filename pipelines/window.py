"""Windows of stream-stream joins, and the durations they are written in.

A record of the right input is in the window of a left record when

    left.timestamp - before <= right.timestamp <= left.timestamp + after

with both ends included. ``grace`` is how long after the end of its window a record is still joined.

    window before=2 after=3     left @10   right @8  in    right @13 in
                                           right @7  out   right @14 out

Source: wiki page "Kafka Streams Join Semantics" (KStream-KStream); KIP-633 for grace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rivermeet.pipelines.errors import OptionError

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"\s*(-?\d+)\s*(ms|s|m|h|d)\s*")


def duration_ms(text: str | int) -> int:
    """Milliseconds of a duration.

    Parameters
    ----------
    text
        A whole number of ms, or a number with a unit: ``"500ms"``, ``"10s"``, ``"5m"``, ``"24h"``, ``"2d"``.

    Examples
    --------
    >>> duration_ms("24h")
    86400000
    >>> duration_ms("-5s")
    -5000
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise OptionError(f"{text!r} is not a duration; write a number and one of {', '.join(_UNITS)}, like '24h'")
    return int(match[1]) * _UNITS[match[2]]


def duration_text(milliseconds: int) -> str:
    """A duration in its largest whole unit; no time is 0 s."""
    if not milliseconds:
        return "0 s"
    for unit, length in (("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds % length == 0:
            return f"{milliseconds // length} {unit}"
    return f"{milliseconds} ms"


@dataclass(frozen=True, init=False)
class JoinWindow:
    """The window of a stream-stream join; all three in ms once built.

    Parameters
    ----------
    before, after
        How far a right record may be before and after a left one. One of them may be negative, but not their sum.
    grace
        How long after the end of its window a record is still joined; not negative.
    """

    before: int
    after: int
    grace: int

    def __init__(self, before: str | int, after: str | int, grace: str | int = 0) -> None:
        object.__setattr__(self, "before", duration_ms(before))
        object.__setattr__(self, "after", duration_ms(after))
        object.__setattr__(self, "grace", duration_ms(grace))
        if self.before + self.after < 0:
            raise OptionError(
                f"window ends before it starts: before + after = {self.before + self.after} ms; make the sum 0 or more"
            )
        if self.grace < 0:
            raise OptionError(f"grace is {self.grace} ms; make it 0 or more")


@dataclass(frozen=True, init=False)
class TimeWindows:
    """Windows of one size that start every ``advance``, the first at 0; all in ms once built.

    A record at t is in every window ``[start, start + size)`` whose start is a multiple of ``advance``: tumbling if
    ``advance`` is ``size`` (the default), hopping if it is less. size=10, advance=5, record at 12: windows
    [5, 15) and [10, 20).

    Parameters
    ----------
    grace
        How long after its end a window still accepts records.
    """

    size: int
    advance: int
    grace: int

    def __init__(self, size: str | int, advance: str | int | None = None, grace: str | int = 0) -> None:
        object.__setattr__(self, "size", duration_ms(size))
        object.__setattr__(self, "advance", self.size if advance is None else duration_ms(advance))
        object.__setattr__(self, "grace", duration_ms(grace))
        if self.size <= 0:
            raise OptionError(f"window size is {self.size} ms; make it 1 or more")
        if not 0 < self.advance <= self.size:
            raise OptionError(f"advance is {self.advance} ms; make it 1 to size = {self.size}, or records fall between")
        if self.grace < 0:
            raise OptionError(f"grace is {self.grace} ms; make it 0 or more")

    @property
    def open_ms(self) -> int:
        """How long (ms) after its timestamp a record may still be in an open window."""
        return self.size + self.grace


@dataclass(frozen=True, init=False)
class SlidingWindows:
    """Windows of records that are at most ``difference`` apart, both ends included (KIP-450); in ms once built.

    Parameters
    ----------
    grace
        How long after its end a window still accepts records.
    """

    difference: int
    grace: int

    def __init__(self, difference: str | int, grace: str | int = 0) -> None:
        object.__setattr__(self, "difference", duration_ms(difference))
        object.__setattr__(self, "grace", duration_ms(grace))
        if self.difference < 0:
            raise OptionError(f"difference is {self.difference} ms; make it 0 or more")
        if self.grace < 0:
            raise OptionError(f"grace is {self.grace} ms; make it 0 or more")

    @property
    def open_ms(self) -> int:
        """How long (ms) after its timestamp a record may still be in an open window, or be the creator of one."""
        # A window has its creator 1 ms before it, and its end, included, 1 ms before the declared one.
        return self.difference + 2 + self.grace
