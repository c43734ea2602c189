"""One-to-many join (inner): KIP-213's first proposal, where the right value carries the left key.

The left table is the "one" side A, the right one the "many" side B; a row is keyed by both keys.

    left  a0 A@5        nothing: no row of B refers to a0
    right b0 a0|1@3     ((a0, b0), (A, a0|1))@5: the later of the two timestamps
    right b0 a1|1@6     ((a0, b0), null)@6, and no row of (a1, b0): a1 is unknown
    left  a1 A@2        ((a1, b0), (A, a1|1))@2: a fan-out has A's own timestamp
    right b0 |1@7       ((a1, b0), null)@7: without a reference there is no row

Its output is strict: a tombstone only where a row is. Source: golden `s001.one_to_many.*`, which
prints no timestamps. They are chosen as in the foreign-key join, whose sides are the other way
round: the later of both for a change of the side that refers, its own for a change of the other,
and a tombstone as the row would have it, from the row of A that it ends.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rivermeet.joins.reference.options import NetOfCommits, VersionedSides
from rivermeet.joins.reference.records import (
    Asks,
    Join,
    Record,
    Row,
    Value,
    join_records,
    key_bytes,
    key_of,
    no_row,
    put,
)
from rivermeet.pipelines import joins as declared


class OneToManyJoin:
    """`extract(key, value)` of a right record gives the left key it refers to, or None.

    The two tables are all the state: the row (a, b) is there if A has a, and B has b with reference a.
    """

    def __init__(self, extract: Callable[[Any, Any], Any]) -> None:
        self.extract = extract
        self.left: dict[Any, Record] = {}
        self.right: dict[Any, Record] = {}

    def process(self, x: Record) -> list[Row]:
        if x.key is None:
            return no_row(x, "null-key")
        return self._one_changes(x) if x.side == "left" else self._many_changes(x)

    def _one_changes(self, x: Record) -> list[Row]:
        existed = x.key in self.left
        put(self.left, x)
        if x.value is None and not existed:
            return no_row(x, "left-deleted")
        referring = [b for b in self.right.values() if self.extract(b.key, b.value) == x.key]
        return [
            self._row(x, b, x, x.timestamp, "joined" if x.value is not None else "left-deleted")
            for b in sorted(referring, key=lambda b: key_bytes(b.key))
        ] or no_row(x, "no-right")

    def _many_changes(self, x: Record) -> list[Row]:
        old = self._partner(self.right.get(x.key))
        put(self.right, x)
        new = self._partner(self.right.get(x.key))
        ends = "right-deleted" if x.value is None else "no-reference"
        rows: list[Row] = []
        if old is not None and (new is None or old.key != new.key):
            rows.append(self._row(old, x, x, max(old.timestamp, x.timestamp), ends))
        if new is not None:
            rows.append(self._row(new, x, x, max(new.timestamp, x.timestamp)))
        refers = x.value is not None and self.extract(x.key, x.value) is not None
        return rows or no_row(x, "no-left" if refers else ends)

    def _row(self, one: Record, many: Record, trigger: Record, timestamp: int, rule: str = "joined") -> Row:
        """The row of both records, or its end."""
        # Keys of columns are put one after the other.
        key = (*one.key, *many.key) if isinstance(one.key, tuple) else (one.key, many.key)
        row = join_records(key, None if rule == "no-reference" else one, many, timestamp, trigger, rule)
        return row if rule == "joined" else replace(row, value=None)

    def _partner(self, b: Record | None) -> Record | None:
        """The present row of A that a row of B refers to."""
        return None if b is None else self.left.get(self.extract(b.key, b.value))


def asks(join: declared.OneToManyJoin) -> Asks:
    """The left key that right records refer to."""
    return {"right": join.foreign_key}


def reference_of(join: declared.OneToManyJoin) -> Join:
    """The reference with the declared cache and versioned sides; a key has the columns of both."""

    def extract(_key: Any, value: Value) -> Any:
        return key_of(join.left.key, value.found)

    made: Join = OneToManyJoin(extract)
    if join.cache is not None:
        made = NetOfCommits(made)
    return VersionedSides(made, join.left.history, join.right.history)
