"""Options of a table: versions, which drop changes before a join, and commits, which merge them.

    versioned, 10 ms     k=a@20, k=b@15, k=c@9     b is not the latest, c older than 20 - 10: both skipped
    result, one commit   (k, 1), (q, 2), (k, 3)    (q, 2), (k, 3): the last row per key, in order of last writes
    result, one commit   (k, 1), (k, null)         nothing, unless k was there before the commit

Source: KIP-889, KIP-914 and the record cache, docs/kafka-streams.md 5.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rivermeet.joins.reference.records import Join, Record, Row, no_row
from rivermeet.joins.reference.versioned import VersionedTable


class VersionedSides:
    """A join with one or two versioned sides: only the latest version of a key is a change.

    A skipped change is forwarded without its key, which every table ignores: the join still counts it.
    """

    def __init__(self, join: Join, left_ms: int | None = None, right_ms: int | None = None) -> None:
        self.join = join
        retentions = {"left": left_ms, "right": right_ms}
        self.tables = {side: VersionedTable(ms) for side, ms in retentions.items() if ms is not None}

    def process(self, x: Record) -> list[Row]:
        rule = self.tables[x.side].put(x).rule if x.key is not None and x.side in self.tables else None
        if rule is None:
            return self.join.process(x)
        return self.join.process(replace(x, key=None, trace=None)) or no_row(x, rule)

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
        rows = self.join.process(x)
        self.result.put(rows)
        return no_row(x, "commit") if rows else []

    def commit(self) -> list[Row]:
        return self.result.commit()
