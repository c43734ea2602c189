"""Options of a table: versions, which drop changes before a join, and commits, which merge them.

    versioned, 10 ms     k=a@20, k=b@15, k=c@9     b is not the latest, c older than 20 - 10: both skipped
    result, one commit   (k, 1), (q, 2), (k, 3)    (q, 2), (k, 3): the last row per key, in order of last writes
    result, one commit   (k, 1), (k, null)         nothing, unless k was there before the commit

Source: KIP-889, KIP-914 and the record cache, docs/kafka-streams.md 5.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rivermeet.joins.reference.records import Join, Record, Row


class CommittedJoin(Join, Protocol):
    """A join that holds rows back until a commit."""

    def commit(self) -> list[Row]: ...


def run_commits(join: CommittedJoin, records: Iterable[Record], every: int) -> list[Row]:
    """A commit after so many records, counting also those a table skips, and one at the end."""
    rows: list[Row] = []
    uncommitted = 0
    for record in records:
        rows += join.process(record)
        uncommitted += 1
        if uncommitted == every:
            rows += join.commit()
            uncommitted = 0
    return rows + (join.commit() if uncommitted else [])


@dataclass
class _Versions:
    """What decides of a key's next change: the present version's start and the end of the one before."""

    present: int | None = None
    ended: int | None = None


@dataclass
class VersionedTable:
    """Which changes a versioned table forwards.

    The highest timestamp seen is that of all keys. A tombstone is a version, so an older change is
    not the latest. Kafka forgets one tombstone: k=a@10 deleted @10 leaves no version behind, and
    k=b@5 is the latest after it. (Not so where an older version of k had ended at 10.)
    """

    retention: int
    seen: int = -1
    keys: dict[Any, _Versions] = field(default_factory=dict)

    def hands_on(self, x: Record) -> bool:
        if x.key is None or x.timestamp < self.seen - self.retention:
            return False
        self.seen = max(self.seen, x.timestamp)
        versions = self.keys.setdefault(x.key, _Versions())
        latest = versions.present if versions.present is not None else versions.ended
        if latest is not None and x.timestamp < latest:
            if versions.present is not None and (versions.ended is None or versions.ended <= x.timestamp):
                versions.ended = versions.present  # the change itself is an older version, up to the present one
            return False
        if versions.present is None:
            versions.ended = x.timestamp if x.value is None else versions.ended
        elif x.timestamp > versions.present:
            versions.ended = x.timestamp
        versions.present = None if x.value is None else x.timestamp
        return True


class VersionedSides:
    """A join with one or two versioned sides.

    A skipped change is forwarded without its key, which every table ignores: the join still counts it.
    """

    def __init__(self, join: Join, left_ms: int | None = None, right_ms: int | None = None) -> None:
        self.join = join
        retentions = {"left": left_ms, "right": right_ms}
        self.tables = {side: VersionedTable(ms) for side, ms in retentions.items() if ms is not None}

    def process(self, x: Record) -> list[Row]:
        skipped = x.side in self.tables and not self.tables[x.side].hands_on(x)
        return self.join.process(replace(x, key=None) if skipped else x)

    def commit(self) -> list[Row]:
        commit = getattr(self.join, "commit", None)
        return commit() if commit else []


class ResultTable:
    """A cached table of rows. What a commit forwards replaces what the last one did."""

    def __init__(self) -> None:
        self.emitted: set[Any] = set()
        self.rows: dict[Any, Row] = {}

    def put(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.rows.pop(row.key, None)  # the order of commit is that of the last writes
            self.rows[row.key] = row

    def commit(self) -> list[Row]:
        rows = [row for row in self.rows.values() if row.value is not None or row.key in self.emitted]
        self.rows = {}
        for row in rows:
            (self.emitted.discard if row.value is None else self.emitted.add)(row.key)
        return rows


class NetOfCommits:
    """Profile "3.1" with a cache: every record joins at once, a commit emits the net change.

    `trigger` stays that of the record that caused the row which is emitted.
    """

    def __init__(self, join: Join) -> None:
        self.join, self.result = join, ResultTable()

    def process(self, x: Record) -> list[Row]:
        self.result.put(self.join.process(x))
        return []

    def commit(self) -> list[Row]:
        return self.result.commit()
