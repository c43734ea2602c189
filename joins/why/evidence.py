"""What the explanation of one row is made from: the few records of its key, and their places in the order.

Each family asks for what its rule needs, and names the records that a row was made of, or says why there is no row. A
record's ``order`` sorts all records that one join has consumed (``joins/order.py``); None is one that it has not
consumed yet.

    right f x    order (1, 5, 1, 0, 0)
    left  k f    order (1, 7, 0, 0, 0)      saw f x: it is the last of f before it
    right f y    order (2, 9, 1, 0, 1)      a later epoch
    right f z    order None                 not joined yet

Held by ``tests/joins/why``, which compares what is said with the reference joins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

Key = Mapping[str, Any]
"""Key column to its value."""
Order = tuple[float, ...]
"""The epoch that consumed a record, and what sorts it within that."""


@dataclass(frozen=True)
class Found:
    """A record of an input; ``order`` is its place among all that the join consumed, None if it did not yet."""

    side: str
    key: Key | None
    value: Mapping[str, Any] | None
    timestamp: int
    partition: int
    offset: int
    order: Order | None = None


@dataclass(frozen=True)
class Trigger:
    """The place of the record that caused a row."""

    side: str
    partition: int
    offset: int


@dataclass(frozen=True)
class ResultRow:
    """A row of a result; the offsets are those of its records, where the join keeps them."""

    key: Key | None
    value: Mapping[str, Any] | None
    timestamp: int
    partition: int
    offset: int
    epoch: int
    trigger: Trigger
    left_offset: int | None = None
    right_offset: int | None = None


@dataclass(frozen=True)
class Late:
    """A record that the join dropped; ``close`` and ``stream_time`` (ms) are None where no window was asked."""

    side: str
    key: Key | None
    timestamp: int
    partition: int
    offset: int
    stream_time: int | None
    close: int | None
    reason: str


@dataclass(frozen=True)
class Unknown:
    """What an expression gives that only Spark can evaluate."""

    sql: str


@dataclass(frozen=True)
class Made:
    """What a row was made of.

    Attributes
    ----------
    parts
        Side to its record; None where the side had none.
    says
        Sentences: why a side is empty, or why the row ended.
    asked
        Sides and keys that were looked for and not found.
    """

    parts: Mapping[str, Found | None]
    says: tuple[str, ...] = ()
    asked: tuple[tuple[str, Key], ...] = ()


@dataclass(frozen=True)
class Reason:
    """Why there is no row: a code that names the rule, a sentence, and the records that show it.

    Attributes
    ----------
    asked
        Side and key without a record; the reason is found in that input.
    """

    code: str
    says: str
    records: tuple[Found, ...] = ()
    asked: tuple[str, Key] | None = None


class Evidence(Protocol):
    """The records of one join, asked by key or place."""

    def record(self, side: str, partition: int, offset: int) -> Found | None:
        """The record at a place of an input."""
        ...

    def records(self, side: str, key: Key | None) -> Sequence[Found]:
        """All records of a key, by partition and offset; those that were not consumed yet come with them."""
        ...

    def mapped(self, mapper: Mapping[str, str], record: Found) -> Key | Unknown | None:
        """The key of another table that a record points to; None if any part of it is null."""
        ...

    def late(self, key: Key | None) -> Sequence[Late]:
        """Records of a key that the join dropped as late."""
        ...

    def stream_time(self, partition: int) -> int | None:
        """Stream time (ms) of a partition after all that was consumed; None before the first record."""
        ...


def standing(records: Sequence[Found], at: Order, history: int | None = None) -> Found | None:
    """The record that a table has at a place in the order, which may be a tombstone; None before the first.

    Parameters
    ----------
    history
        Of a versioned table (ms): there the highest timestamp counts, and not the last arrival.
    """
    seen = [(one.order, one) for one in records if one.order is not None and one.order <= at]
    if history is not None:
        return max(seen, key=lambda pair: (pair[1].timestamp, pair[0]), default=(None, None))[1]
    return max(seen, key=lambda pair: pair[0], default=(None, None))[1]


def before(records: Sequence[Found], at: Order, history: int | None = None) -> Found | None:
    """The record that a table had just before a place in the order."""
    return standing([one for one in records if one.order is not None and one.order < at], at, history)


def is_there(record: Found | None) -> bool:
    """Whether a record is a row, and no tombstone."""
    return record is not None and record.value is not None


def unread(records: Sequence[Found]) -> tuple[Found, ...]:
    """Those that the join has not consumed yet."""
    return tuple(one for one in records if one.order is None)


def named(key: Key | None) -> str:
    """A key as sentences show it: ``carrier=UA, flight=15``."""
    return "no key" if key is None else ", ".join(f"{name}={shown(value)}" for name, value in key.items())


def shown(value: Any) -> str:
    """A value as sentences show it; instants in UTC."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat(sep=" ")
    return "null" if value is None else str(value)


def moment(ms: int) -> str:
    """An instant in UTC."""
    return shown(datetime(1970, 1, 1) + timedelta(milliseconds=ms)) if abs(ms) < 10**14 else f"{ms} ms"


def span(ms: int) -> str:
    """A duration in its largest units: ``1 d 2 h``, ``3 s``, ``250 ms``."""
    parts = []
    rest = abs(ms)
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 ms"
