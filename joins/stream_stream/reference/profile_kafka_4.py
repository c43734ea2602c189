"""Stream-stream join as 4.x runs it: unmatched records wait until a gate emits them.

Left join, window 10/10, no grace; rows leave later than their window closes, or too early:

    left  k A@0, B@5, C@8    all wait
    right x a@11             (A, null)@0: 11 > 0 + 10. The scan saw B and C too, so the gate is now at 8
    right x b@18             nothing: 18 is not beyond 8 + 10, though B's window closed after 15
    right x c@19             (B, null)@5, (C, null)@8
    left  k D@3              (D, null)@3 at once: 3 + 10 < 19, whatever the grace

Source: docs/kafka-streams.md 1. Without the throttle (`emit_interval_ms` 0), which no data shows.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rivermeet.joins.reference.records import Join, Record, Row, key_bytes, no_row
from rivermeet.joins.stream_stream.reference.profile_0_10_2 import JoinStores, WindowStore
from rivermeet.joins.stream_stream.reference.profile_3_1 import OUTER_SIDES, one_sided, pair

BOTH = {"left", "right"}


@dataclass
class Task:
    """One partition: both stores by their own time, and what waits by the time of both sides."""

    stores: JoinStores
    stream_time: int = -1
    waiting: list[Record] = field(default_factory=list[Record])
    # The gate: None where nothing can wait. Not the oldest that waits, but the last one a scan saw.
    min_time: int | None = None


class StreamStreamKafka4Join:
    """Profile "kafka-4". Right records from `before` ms earlier to `after` ms later than a left one."""

    def __init__(self, how: str, before: int, after: int, grace: int) -> None:
        self.outer_sides = OUTER_SIDES[how]
        self.bounds = {"left": after, "right": before}
        self.grace = grace
        store = partial(WindowStore, before + after + grace, bounded=True)
        self.partitions = defaultdict[int, Task](lambda: Task(JoinStores(before, after, store)))

    def process(self, x: Record) -> list[Row]:
        """First what x's time releases, then x's pairs: the reverse of the documents' order."""
        task = self.partitions[x.partition]
        task.stream_time = max(task.stream_time, x.timestamp)
        outer = x.side in self.outer_sides
        if x.value is None:
            return no_row(x, "null-value")
        if x.key is None:
            return [one_sided(x, x)] if outer else no_row(x, "null-key")
        rows = self._release(task, x) if x.timestamp == task.stream_time else []
        matches = task.stores.matches(x)
        gone = {sort_key(o) for o in matches}
        # All that waits with a match's key, side and timestamp goes with it, whatever its value.
        task.waiting = [w for w in task.waiting if sort_key(w) not in gone]
        rows += [pair(x, o) for o in matches]
        if outer and not matches:
            if task.stores.latest(x) < task.stream_time:
                rows.append(one_sided(x, x))  # may be false: within its grace x can still find a partner
            else:
                task.waiting.append(x)
                no_row(x, "waiting", close=x.timestamp + self.bounds[x.side] + self.grace + 1)
                task.min_time = x.timestamp if task.min_time is None else min(task.min_time, x.timestamp)
        elif not matches:
            no_row(x, "kept")
        task.stores.put(x)
        return rows

    def _release(self, task: Task, x: Record) -> list[Row]:
        """One scan, if the gate is open by the bound of x's own side, be it the other one's rows."""
        if task.min_time is None or not self._is_closed(task, x.side, task.min_time):
            return []
        task.min_time = None
        released: list[Record] = []
        open_sides: set[str] = set()
        for w in sorted(task.waiting, key=sort_key):
            task.min_time = w.timestamp
            # In a left join one side never waits, so such a scan always runs to the newest record.
            if open_sides == BOTH:
                break
            if self._is_closed(task, w.side, w.timestamp):
                released.append(w)
            else:
                open_sides.add(w.side)
        gone = {w.position for w in released}
        task.waiting = [w for w in task.waiting if w.position not in gone]
        return [one_sided(w, x) for w in released]

    def _is_closed(self, task: Task, side: str, timestamp: int) -> bool:
        return timestamp + self.bounds[side] + self.grace < task.stream_time


def sort_key(x: Record) -> tuple[int, bool, Any]:
    """The order of waiting: by time, right before left, then the key's bytes."""
    return (x.timestamp, x.side == "left", key_bytes(x.key))


class TwiceSelfJoin:
    """A stream with itself, plan not optimized: each record is a left and then a right one.

    The right copy finds the left one in the store, and so gives the pair of a record with itself.
    """

    def __init__(self, join: Join) -> None:
        self.join = join

    def process(self, x: Record) -> list[Row]:
        return [row for side in ("left", "right") for row in self.join.process(replace(x, side=side))]


class StreamStreamKafka4SelfJoin:
    """The optimized plan: one store. Differs in (x, x) only, which asks neither window nor store.

    Window -3/9: k A@0 gives (A, A), though only records 3 ms apart may join.
    """

    def __init__(self, before: int, after: int, grace: int) -> None:
        self.before, self.after = before, after
        self.retention = before + after + grace
        self.partitions = defaultdict[int, WindowStore](partial(WindowStore, self.retention, bounded=True))

    def process(self, x: Record) -> list[Row]:
        """X as left with earlier ones, then x as right, and (x, x) where its timestamp belongs."""
        if x.key is None or x.value is None:
            return no_row(x, "null-value" if x.value is None else "null-key")
        store = self.partitions[x.partition]
        as_left, as_right = replace(x, side="left"), replace(x, side="right")
        rows = [pair(as_left, o) for o in self._fetch(store, x, self.before, self.after)]
        older_left = self._fetch(store, x, self.after, self.before)
        store.put(x)
        # The same off by one as in a bounded store, and one more.
        itself = [x] if x.timestamp > store.time - self.retention + 1 else []
        rows += [pair(as_right, o) for o in sorted([*older_left, *itself], key=lambda o: o.timestamp)]
        return rows or no_row(x, "kept")

    def _fetch(self, store: WindowStore, x: Record, before: int, after: int) -> list[Record]:
        return store.fetch(x.key, max(0, x.timestamp - before), max(0, x.timestamp + after))
