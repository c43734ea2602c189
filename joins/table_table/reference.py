"""Table-table join on the primary key: each change of either side answers for its key.

Left join, profile "3.1":

    right k a@1     nothing: there is no left row
    left  k A@2     (A, a)@2
    right k null@3  (A, null)@3
    left  k null@1  tombstone@1: the row ends, at the change's own timestamp
    left  k null@5  nothing: there was no row

Were right k still there, "kafka-4" would send another tombstone at the end. A versioned side answers
only to the latest version of a key. With `cache` nothing is emitted before `commit`: "3.1" then emits
the net change of each key, Kafka flushes one cache after the other.

Source: golden `s000.tt.*`, `s002.tt.*`, KIP-77, KIP-914, docs/laws.md, docs/kafka-streams.md 3 and 5.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rivermeet.joins.reference.options import NetOfCommits, ResultTable
from rivermeet.joins.reference.records import Asks, Join, Record, Row, no_row, places
from rivermeet.joins.reference.versioned import Change, PlainTable, VersionedTable
from rivermeet.pipelines import joins as declared

OTHER = {"left": "right", "right": "left"}


class CachedTable:
    """A plain table that emits its changes only when flushed, one per key, in the order of the last writes.

    put a A, put b B, put a A2, commit    b from nothing to B, then a from nothing to A2
    put c C, delete c, commit             nothing: c was absent before and is absent after

    A change has the last write's timestamp. A lookup sees what waits. Source: golden `s000.tt.cache.*`,
    docs/kafka-streams.md 5 "Record cache".
    """

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


class TableTableJoin:
    """`commit` ends a commit interval; without `cache` it has nothing to say."""

    def __init__(
        self,
        how: str,
        semantics: str = "3.1",
        left_versioned_ms: int | None = None,
        right_versioned_ms: int | None = None,
        materialized: bool = False,
        cache: bool = False,
    ) -> None:
        self.how, self.semantics = how, semantics
        self.cached_sources = cache and semantics != "3.1"
        self.sides = {"left": self._table(left_versioned_ms), "right": self._table(right_versioned_ms)}
        self.result = ResultTable() if cache and (materialized or semantics == "3.1") else None
        self.last = -1

    def _table(self, versioned_ms: int | None) -> PlainTable | VersionedTable | CachedTable:
        if versioned_ms is not None:
            return VersionedTable(versioned_ms)  # Kafka Streams does not cache these
        return CachedTable() if self.cached_sources else PlainTable()

    def process(self, x: Record) -> list[Row]:
        self.last = x.position
        if x.key is None:
            if self.semantics == "0.10.0":
                raise ValueError("Kafka Streams 0.10.1 refuses a table record without key")
            return no_row(x, "null-key")
        table = self.sides[x.side]
        old = table.get(x.key)
        if rule := table.put(x).rule:
            return no_row(x, rule)
        if isinstance(table, CachedTable):
            return no_row(x, "commit")
        rows = self._change(x, old)
        return self._forward(rows) or (no_row(x, "commit") if rows else [])

    def commit(self) -> list[Row]:
        rows: list[Row] = []
        for table in self.sides.values():
            if isinstance(table, CachedTable):
                for x, old in table.flush():
                    # Both sides are looked up through their caches: what was not flushed counts.
                    rows += self._forward(self._change(x, old))
        if self.result is not None:
            rows += self.result.commit()
        # Kafka Streams names no record that caused a flushed row: the commit did.
        return rows if self.semantics == "3.1" else [replace(row, trigger=self.last) for row in rows]

    def _forward(self, rows: list[Row]) -> list[Row]:
        if self.result is None:
            return rows
        self.result.put(rows)
        return []

    def _change(self, x: Record, old: Record | None) -> list[Row]:
        """Rows of a change of one side from `old` to x, given the other side as it is now."""
        other = self.sides[OTHER[x.side]].get(x.key)
        now = self._row(x.side, x.value, other)
        lacking = f"{x.side}-deleted" if x.value is None else f"no-{OTHER[x.side]}"
        if now is None and not self._tombstone(x, old, other):
            return no_row(x, lacking)
        timestamp = x.timestamp if other is None else max(x.timestamp, other.timestamp)
        if self.semantics == "0.10.0":
            timestamp = x.timestamp
        rule = "joined" if x.value is not None and other is not None else lacking
        return [Row(x.key, now, timestamp, x.position, **places(x, other), rule=rule)]

    def _row(self, side: str, value: Any, other: Record | None) -> tuple[Any, Any] | None:
        looked_up = None if other is None else other.value
        left, right = (value, looked_up) if side == "left" else (looked_up, value)
        present = {"inner": None not in (left, right), "left": left is not None, "outer": (left, right) != (None, None)}
        return (left, right) if present[self.how] else None

    def _tombstone(self, x: Record, old: Record | None, other: Record | None) -> bool:
        """Whether the absence of a row has to be emitted."""
        if self.semantics == "0.10.0":
            return True
        if self.semantics == "3.1":
            return old is not None and self._row(x.side, old.value, other) is not None
        if self.how == "left" and x.side == "right":
            return False
        # Kafka Streams looks at the old value only if the other side is empty.
        return other is not None or (self.how != "inner" and old is not None)


class WindowsApart:
    """A join of windowed tables: a left row meets the right one whose window starts ``shift`` ms later."""

    def __init__(self, join: TableTableJoin, shift: int) -> None:
        self.join, self.shift = join, shift

    def process(self, x: Record) -> list[Row]:
        if x.side == "right" and x.key is not None:
            *own, start, end = x.key
            x = replace(x, key=(*own, start - self.shift, end - self.shift))
        return self.join.process(x)

    def commit(self) -> list[Row]:
        return self.join.commit()


def asks(join: declared.TableTableJoin) -> Asks:
    """Nothing: rows meet by key."""
    return {}


def reference_of(join: declared.TableTableJoin) -> Join:
    """The reference of the declared profile, with its cache, its versioned sides and its window map."""
    early = join.semantics == "0.10.0"
    made = TableTableJoin(
        join.how,
        join.semantics,
        join.left.history,
        join.right.history,
        join.materialized and not early,
        join.cache is not None and not early,
    )
    if join.cache is not None and early:
        return NetOfCommits(made)
    return made if not join.window_map else WindowsApart(made, join.window_map)
