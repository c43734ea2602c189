"""The record cache of a table: changes wait for the commit, one per key.

    put a A, put b B, put a A2, commit    b from nothing to B, then a from nothing to A2
    put c C, delete c, commit             nothing: c was absent before and is absent after

Keys go in the order of their last write, with the last write's timestamp. A lookup sees what
waits. Source: golden `s000.tt.cache.*`, docs/kafka-streams.md 5 "Record cache".
"""

from collections.abc import Iterator
from typing import Any

from rivermeet.joins.reference.records import Record, Row
from rivermeet.joins.reference.versioned import Change, PlainTable


class CachedTable:
    """A plain table that emits its changes only when flushed."""

    def __init__(self) -> None:
        self.flushed, self.now = PlainTable(), PlainTable()
        self.dirty: dict[Any, Record] = {}

    def put(self, x: Record) -> Change:
        self.dirty.pop(x.key, None)  # to the end of the order
        self.dirty[x.key] = x
        return self.now.put(x)

    def get(self, key: Any) -> Record | None:
        return self.now.get(key)

    def flush(self) -> Iterator[tuple[Record, Record | None]]:
        """The last change of each key, with the row there was at the last flush."""
        waiting, self.dirty = list(self.dirty.values()), {}
        for x in waiting:
            old = self.flushed.get(x.key)
            self.flushed.put(x)
            if old is not None or x.value is not None:
                yield x, old


class ResultCache:
    """The cache of a join's result: `present` are the keys that have a row as far as emitted."""

    def __init__(self) -> None:
        self.present: set[Any] = set()
        self.dirty: dict[Any, Row] = {}

    def put(self, row: Row) -> None:
        self.dirty.pop(row.key, None)
        self.dirty[row.key] = row

    def flush(self) -> list[Row]:
        waiting, self.dirty = list(self.dirty.values()), {}
        emitted = [row for row in waiting if row.value is not None or row.key in self.present]
        for row in emitted:
            (self.present.discard if row.value is None else self.present.add)(row.key)
        return emitted
