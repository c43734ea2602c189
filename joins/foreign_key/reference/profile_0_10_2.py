"""Foreign-key join as Kafka Streams 3.0.2 has it (profile "0.10.2"): null foreign keys stop a change.

    right f x@1
    left  k f|1@2     (f|1, x)@2
    left  k |1@3      nothing, and the row stays: a change from or to a null foreign key is dropped
    right f y@4       nothing: k still subscribes to f, but for f|1, and k is |1 now
    left  k f|1@5     nothing: a change from a null foreign key
    right f z@6       (f|1, z)@6: the old subscription is that of f|1 again
    left  k f|2@7     (f|2, z)@7

| left change | what happens |
| --- | --- |
| either foreign key null, though the value is not | dropped; the left table still has it |
| insert | subscribe; inner: answer if the right row exists; left: always |
| update, also of the same foreign key | unsubscribe another, subscribe, always answer: (left, null) or tombstone |
| delete | unsubscribe, tombstone at the later of its own and the right row's timestamp |

Source: KIP-213 as released in 3.0 (docs/kafka-streams.md 6).
"""

from collections.abc import Callable
from typing import Any

from rivermeet.joins.foreign_key.reference.join import ForeignKeyJoin, after, answer, tombstone
from rivermeet.joins.reference.records import Record, Row, key_bytes, no_row, put


class ForeignKeyJoin30(ForeignKeyJoin):
    """Subscriptions are state of their own: a dropped change leaves one behind.

    One left key may have several; at most one belongs to its current value.
    """

    def __init__(self, how: str, extract: Callable[[Any, Any], Any]) -> None:
        super().__init__(how, extract)
        self.present = self.left  # with a cache: ahead of what the last commit left in `left`
        self.subscriptions: dict[Any, dict[Any, Any]] = {}  # foreign key -> left key -> left value

    def _change_left(self, x: Record) -> list[Row]:
        old = self.left.get(x.key)
        put(self.left, x)
        keys = [self.extract(r.key, r.value) for r in (old, x) if r is not None and r.value is not None]
        if not keys or None in keys:
            return no_row(x, "no-foreign-key" if keys else "left-deleted")
        if x.value is None:
            self._unsubscribe(keys[0], x.key)
            return [tombstone(x, x, after(x, self.right.get(keys[0])))]
        if keys[0] != keys[-1]:
            self._unsubscribe(keys[0], x.key)
        self.subscriptions.setdefault(keys[-1], {})[x.key] = x.value
        right = self.right.get(keys[-1])
        if right is None and self.how == "inner":
            return no_row(x, "no-right") if old is None else [tombstone(x, x, x.timestamp, "no-right")]
        return [answer(x, x, right, after(x, right), "no-right")]

    def _unsubscribe(self, foreign_key: Any, key: Any) -> None:
        self.subscriptions.get(foreign_key, {}).pop(key, None)

    def _change_right(self, x: Record) -> list[Row]:
        put(self.right, x)
        right = self.right.get(x.key)
        rows: list[Row] = []
        for key, subscribed in sorted(self.subscriptions.get(x.key, {}).items(), key=lambda s: key_bytes(s[0])):
            left = self.present.get(key)
            if left is None or left.value != subscribed:
                no_row(x, "stale")
                continue  # by hash
            gone = right is None and self.how == "inner"
            rows.append(tombstone(left, x, x.timestamp) if gone else answer(left, x, right, x.timestamp))
        return rows if self.subscriptions.get(x.key) else no_row(x, "no-left")
