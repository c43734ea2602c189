"""The tables that reference joins look into: plain ones and ones that keep a history.

A versioned table with 5 ms of history:

    put a@10        latest
    put b@7         kept, but not latest: a lookup at 8 sees b, one at 10 sees a
    put c@4         dropped: 4 < observed time 10 - 5
    delete @12      latest; a lookup at 11 still sees a, one at 12 nothing

A tombstone is a version too. The exception: a delete at the very timestamp of the latest value
leaves no trace unless a stored version ends there, so that an older put is latest again.

Source: KIP-889, KIP-914, docs/kafka-streams.md 4 and 5; the exception from Kafka Streams 4.3.1
itself (recorded as `oracle_tables.jsonl.gz`).
"""

from dataclasses import dataclass, field
from typing import Any

from rivermeet.joins.reference.records import Record, put

BEGINNING = -(2**63)  # observed time of a table that has seen nothing


@dataclass(frozen=True)
class Change:
    """What a put did. Joins of tables see only the latest version of a key."""

    kept: bool = True
    latest: bool = True

    @property
    def rule(self) -> str | None:
        """The rule of `RULES` by which a join of tables does not see it; None if it does."""
        return None if self.latest else "not-latest" if self.kept else "expired"


class PlainTable:
    """The last record processed wins; a deleted row is gone together with its timestamp.

    As of all tables, `get` gives the value of now, `as_of` the one that was valid at a time.
    """

    def __init__(self) -> None:
        self.rows: dict[Any, Record] = {}

    def put(self, x: Record) -> Change:
        put(self.rows, x)
        return Change()

    def get(self, key: Any) -> Record | None:
        return self.rows.get(key)

    def as_of(self, key: Any, timestamp: int) -> Record | None:
        """Without history a late lookup sees the value of now."""
        return self.rows.get(key)


@dataclass
class History:
    """One key: the latest value, and what ended before it.

    `past` holds versions by their start, tombstones included; the last of them ends at `end`. From
    `end` to the latest value the key is absent.
    """

    latest: Record | None = None
    past: dict[int, Record | None] = field(default_factory=dict[int, Record | None])
    end: int | None = None

    def close(self, x: Record, end: int) -> None:
        """Append x as the last version of the past; the time before it was one of absence."""
        if self.end is not None and self.end < x.timestamp:
            self.past[self.end] = None
        self.past[x.timestamp] = x
        self.end = end


class VersionedTable:
    """`retention` ms of history, counted from the highest timestamp put under any key."""

    def __init__(self, retention: int) -> None:
        self.retention = retention
        self.observed = BEGINNING
        self.keys: dict[Any, History] = {}

    def put(self, x: Record) -> Change:
        if x.timestamp < self.observed - self.retention:
            return Change(kept=False, latest=False)
        self.observed = max(self.observed, x.timestamp)
        return Change(latest=put_version(self.keys.setdefault(x.key, History()), x))

    def get(self, key: Any) -> Record | None:
        return self.keys.get(key, History()).latest

    def as_of(self, key: Any, timestamp: int) -> Record | None:
        h = self.keys.get(key, History())
        if h.latest is not None and h.latest.timestamp <= timestamp:
            return h.latest  # never expires, however old the lookup
        if timestamp < self.observed - self.retention or h.end is None or timestamp >= h.end:
            return None
        start = max((t for t in h.past if t <= timestamp), default=None)
        found = None if start is None else h.past[start]
        return None if found is None or found.value is None else found


def put_version(h: History, x: Record) -> bool:
    """Put x where its timestamp belongs and say whether it is the latest version."""
    if h.latest is not None and x.timestamp >= h.latest.timestamp:
        if x.timestamp > h.latest.timestamp:
            h.close(h.latest, x.timestamp)
        h.latest = None if x.value is None else x
        return True
    if h.end is not None and x.timestamp < h.end:
        h.past[x.timestamp] = x
        return False
    if h.latest is not None:
        h.close(x, h.latest.timestamp)
        return False
    if x.value is not None:
        h.latest = x
    else:
        # The end of the past is all there is to a tombstone that nothing follows.
        if h.end is not None and h.end < x.timestamp:
            h.past[h.end] = None
        h.end = x.timestamp
    return True
