"""The record cache of a table: changes wait for the commit, one per key.

    put a A, put b B, put a A2, commit    b from nothing to B, then a from nothing to A2
    put c C, delete c, commit             nothing: c was absent before and is absent after

Keys go in the order of their last write, with the last write's timestamp. A lookup sees what
waits. Source: golden `s000.tt.cache.*`, docs/kafka-streams.md 5 "Record cache".
"""

from collections.abc import Iterator
from typing import Any

from rivermeet.joins.reference.records import Record
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
