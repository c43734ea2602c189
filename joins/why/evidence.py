"""What the explanation of one row is made from: the few records of its key, and their places in the order.

Each family names the keys whose records its rule needs (``reads``); these are replayed through the family's reference
join (``replay.py``). A record's ``order`` sorts all records that one join has consumed (``joins/order.py``); None is
one that it has not consumed yet.

    right f x    order (1, 5, 1, 0, 0)
    left  k f    order (1, 7, 0, 0, 0)      saw f x: it is the last of f before it
    right f y    order (2, 9, 1, 0, 1)      a later epoch
    right f z    order None                 not joined yet

Held by ``tests/joins/why``, which compares what is said with the reference joins over whole histories.
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
class ResultRow:
    """A row of a result, and the record that caused it; offsets are those of its records, where the join keeps them."""

    key: Key | None
    value: Mapping[str, Any] | None
    timestamp: int
    partition: int
    trigger: Found
    left_offset: int | None = None
    right_offset: int | None = None


@dataclass(frozen=True)
class Unknown:
    """What an expression gives that only Spark can evaluate."""

    sql: str


@dataclass(frozen=True)
class Made:
    """The records of a row.

    Attributes
    ----------
    parts
        Side to its record; None if the side had none.
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
    """Why there is no row, or no record on a side of one: a sentence, and the records that show it.

    Attributes
    ----------
    code
        The rule, of ``joins.reference.records.RULES`` or of what was not read.
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

    def records(self, side: str, key: Key) -> Sequence[Found]:
        """Records of a key, by partition and offset; those that were not consumed yet come with them."""
        ...

    def evaluate(self, side: str, asked: Mapping[str, Any], records: Sequence[Found]) -> list[dict[str, Any]]:
        """What expressions give of records of one side, by name; `Unknown` where only Spark can say it."""
        ...

    def stream_time(self, side: str, partition: int, before: Order) -> int | None:
        """The highest timestamp (ms) of an input's partition that was consumed before a place in the order."""


def is_there(record: Found | None) -> bool:
    """Whether a record is a row, and no tombstone."""
    return record is not None and record.value is not None


def show_key(key: Key | None) -> str:
    """A key as sentences show it: ``carrier=UA, flight=15``."""
    return "no key" if key is None else ", ".join(f"{name}={show(value)}" for name, value in key.items())


def show(value: Any) -> str:
    """A value as sentences show it; instants in UTC."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat(sep=" ")
    return "null" if value is None else str(value)


def moment(ms: int) -> str:
    """An instant in UTC."""
    return show(datetime(1970, 1, 1) + timedelta(milliseconds=ms)) if abs(ms) < 10**14 else f"{ms} ms"


def span(ms: int) -> str:
    """A duration in its largest units: ``1 d 2 h``, ``3 s``, ``250 ms``."""
    parts = []
    rest = abs(ms)
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 ms"
