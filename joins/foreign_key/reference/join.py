"""Foreign-key join of two tables: a change of either side answers for every left row it concerns.

Foreign key: the text before "|". Inner join:

    right f x@5       nothing: no key subscribes to f
    left  k f|1@3     (f|1, x)@5: the later of the two timestamps
    right f y@4       (f|1, y)@4: the right record's own timestamp, though it goes back
    left  k g|1@6     tombstone@6: f's row is invalid, and g has no row

Source: KIP-213 (golden `s000.fk.*`, `s001.fk.*`), instruction table of docs/kafka-streams.md 6
(4.3.1), foreign keys that are null after KIP-962.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rivermeet.joins.reference.records import Record, Row, join_records, key_bytes, no_row, put


class ForeignKeyJoin:
    """`extract(key, value)` gives the foreign key; the two tables are all the state there is.

    A subscription is a present left row seen from its foreign key, so it needs no store of its own.
    """

    def __init__(self, how: str, extract: Callable[[Any, Any], Any]) -> None:
        self.how, self.extract = how, extract
        self.left: dict[Any, Record] = {}
        self.right: dict[Any, Record] = {}

    def process(self, x: Record) -> list[Row]:
        if x.key is None:
            return no_row(x, "null-key")
        return self._change_left(x) if x.side == "left" else self._change_right(x)

    def _change_left(self, x: Record) -> list[Row]:
        old = self.left.get(x.key)
        put(self.left, x)
        old_fk = None if old is None else self.extract(old.key, old.value)
        new_fk = None if x.value is None else self.extract(x.key, x.value)
        right = None if new_fk is None else self.right.get(new_fk)
        if x.value is None:
            return self._delete(x, old, old_fk)
        lacking = "no-foreign-key" if new_fk is None else "no-right"
        if right is not None or self.how == "left":
            return [answer(x, x, right, after(x, right), lacking)]
        if old_fk is None or old_fk == new_fk:
            # Same key: the row did not join before either, or its end has been emitted by the right side.
            return no_row(x, lacking)
        # Without a foreign key nothing can be asked; only the old subscription can answer.
        # Another key: it is unknown whether the old one joined, so its row is always ended.
        return [tombstone(x, x, after(x, self.right.get(old_fk)) if new_fk is None else x.timestamp, lacking)]

    def _delete(self, x: Record, old: Record | None, old_fk: Any) -> list[Row]:
        if self.how == "left":
            # Answered on the spot, without asking the right side for its timestamp.
            return no_row(x, "left-deleted") if old is None else [tombstone(x, x, x.timestamp)]
        return no_row(x, "left-deleted") if old_fk is None else [tombstone(x, x, after(x, self.right.get(old_fk)))]

    def _change_right(self, x: Record) -> list[Row]:
        put(self.right, x)
        right = self.right.get(x.key)
        subscribers = [o for o in self.left.values() if self.extract(o.key, o.value) == x.key]
        return [
            # The right record's own timestamp, also where the left row is newer.
            tombstone(o, x, x.timestamp) if right is None and self.how == "inner" else answer(o, x, right, x.timestamp)
            for o in sorted(subscribers, key=lambda o: key_bytes(o.key))
        ] or no_row(x, "no-left")


def after(x: Record, right: Record | None) -> int:
    """Timestamp of a left-triggered row: the later one of its two rows."""
    return x.timestamp if right is None else max(x.timestamp, right.timestamp)


def answer(left: Record, trigger: Record, right: Record | None, timestamp: int, lacking: str = "right-deleted") -> Row:
    """A joined row, or (left, null) where the right side has none, by the rule ``lacking``."""
    row = join_records(left.key, left, right, timestamp, trigger, "joined" if right else lacking)
    return replace(row, left_hash_of=left.value)


def tombstone(left: Record, trigger: Record, timestamp: int, lacking: str = "left-deleted") -> Row:
    """The end of a row. Its hash is that of the present left value: None only after a delete."""
    at = trigger.position if trigger.side == "right" else None
    rule = lacking if at is None else "right-deleted"
    return Row(left.key, None, timestamp, trigger.position, left.position, at, left.value, rule)
