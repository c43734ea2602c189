"""Foreign-key join of two cached tables, as Kafka Streams 4.3.1 and 3.0.2 commit it.

    one commit of  left k f|1@1, right f x@2       one row: the fan-out of f does not know k yet
    next, of       left k f|2@3, right f y@4       one row, (f|2, y)@4: the fan-out answers for f|1, which is stale
    next, of       left k f|2@5, right f z@6       two rows, (f|2, z)@6 twice: an equal value is not stale

A change of a cached side waits for the commit: one per key, in the order of the last writes, from
the state of the last commit to the current one. The other side is looked up in its current state.

1. The right changes fan out to the left rows of the last commit, and only to those whose value is
   still the same. A key that was absent and is absent again does not count as changed.
2. The left changes are answered.

All right rows come before all left ones: a fan-out is an answer already, while a left change first
has to ask. Source: docs/kafka-streams.md 5 and 6; the order is the oracle's.
"""

from dataclasses import replace
from typing import Any

from rivermeet.joins.foreign_key.reference.join import ForeignKeyJoin
from rivermeet.joins.foreign_key.reference.profile_0_10_2 import ForeignKeyJoin30
from rivermeet.joins.reference.options import ResultTable
from rivermeet.joins.reference.records import Record, Row, no_row, put


class CachedForeignKeyJoin:
    """`join` is the one without a cache. `cached` names the sides with one: a versioned side has none.

    With `materialized` the result is cached as well. A commit forwards first what waits there, then
    each answer of its own by itself, so that all it adds is to keep tombstones of absent rows back.
    """

    def __init__(
        self,
        join: ForeignKeyJoin,
        cached: tuple[str, ...] = ("left", "right"),
        materialized: bool = False,
    ) -> None:
        # Its left table is that of the last commit, which is what the subscriptions stand for.
        self.committed = join
        self.left: dict[Any, Record] = {}
        if isinstance(join, ForeignKeyJoin30):
            join.present = self.left
        self.right_emitted: set[Any] = set()
        self.dirty: dict[str, dict[Any, Record]] = {side: {} for side in cached}
        self.result = ResultTable() if materialized else None
        self.last = -1

    def process(self, x: Record) -> list[Row]:
        self.last = x.position
        if x.key is None:
            return no_row(x, "null-key")
        put(self.left if x.side == "left" else self.committed.right, x)
        if x.side in self.dirty:
            self.dirty[x.side].pop(x.key, None)
            self.dirty[x.side][x.key] = x
            return no_row(x, "commit")
        rows = self._change(x)
        if self.result is None:
            return rows or no_row(x, "stale")
        self.result.put(rows)
        return no_row(x, "commit")

    def commit(self) -> list[Row]:
        rows = self.result.commit() if self.result else []
        for side in ("right", "left"):
            for x in self._take(side):
                rows += self._forward(self._change(x))
        return [replace(row, trigger=self.last) for row in rows]

    def _take(self, side: str) -> list[Record]:
        changes = list(self.dirty.get(side, {}).values())
        if side in self.dirty:
            self.dirty[side] = {}
        if side == "left":
            return changes  # from null to null is for the join to ignore
        changes = [x for x in changes if x.value is not None or x.key in self.right_emitted]
        for x in changes:
            (self.right_emitted.discard if x.value is None else self.right_emitted.add)(x.key)
        return changes

    def _change(self, x: Record) -> list[Row]:
        rows = self.committed.process(x)
        return rows if x.side == "left" else [row for row in rows if self._is_fresh(row.key)]

    def _is_fresh(self, key: Any) -> bool:
        """The answer carries the hash of the subscribed value; only an equal one takes it."""
        if isinstance(self.committed, ForeignKeyJoin30):
            return True  # its subscriptions are not those of the committed values: it has compared
        present = self.left.get(key)
        return present is not None and present.value == self.committed.left[key].value

    def _forward(self, rows: list[Row]) -> list[Row]:
        if self.result is None:
            return rows
        emitted: list[Row] = []
        for row in rows:
            self.result.put([row])
            emitted += self.result.commit()
        return emitted
