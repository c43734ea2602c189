"""Eager stream-stream join: what finds no partner at once is answered with null at once.

Left join, window 10/10:

    left  k A@0    (A, null)@0 at once
    right k a@8    (A, a)@8 as well: a null that was emitted is never taken back
    right k b@9    (A, b)@9; and nothing for b alone, it is not an outer side

There is no lateness. A pair ends only when the earlier record is gone from its side's store,
and a store's time is the newest record of its *own* side: left k A@0, right x b@10^9, right k a@5 still joins.

Profile "0.10.2", proven on 3.0.2; with `kafka4` the old windows (`JoinWindows.of`) on 4.x.
Source: docs/kafka-streams.md 2, and "Late records" of 1.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from rivermeet.joins.reference.records import Record, Row, no_row
from rivermeet.joins.stream_stream.reference.profile_3_1 import OUTER_SIDES, one_sided, pair

SMALLEST_SEGMENT = 60_000  # ms; a store drops whole segments, never single records


def segment_of(retention: int) -> int:
    """How many ms of records a segment takes."""
    return max(retention // 2, SMALLEST_SEGMENT)


@dataclass
class WindowStore:
    """The records of one side; a segment goes when all of it is older than the retention.

    Retention 20, so segments of 60 s: with a record at 120_020 those before 120_000 are gone; at
    120_019 even one at 60_000 is still there. `bounded` hides what is older than the retention,
    to the millisecond, though it is still stored: 120_019 would then hide all up to 119_999. That is
    always more than the segments drop, so they show in an unbounded store only.
    """

    retention: int
    bounded: bool
    time: int = -1
    records: list[Record] = field(default_factory=list[Record])

    def put(self, x: Record) -> None:
        """Keep x unless its segment is gone; the new time may drop other segments."""
        self.time = max(self.time, x.timestamp)
        oldest = self._segment(max(0, self.time - self.retention))
        self.records = [o for o in [*self.records, x] if self._segment(o.timestamp) >= oldest]

    def fetch(self, key: str, earliest: int, latest: int) -> list[Record]:
        """Both ends inclusive, by timestamp, equal ones as they came."""
        if self.bounded:
            # One ms too strict: without window and grace nothing that is stored is ever found.
            earliest = max(earliest, self.time - self.retention + 1)
        found = [o for o in self.records if o.key == key and earliest <= o.timestamp <= latest]
        return sorted(found, key=lambda o: o.timestamp)

    def _segment(self, timestamp: int) -> int:
        return timestamp // segment_of(self.retention)


class JoinStores:
    """Both sides' stores of one partition, and the look-up of one side's record on the other."""

    def __init__(self, before: int, after: int, store: Callable[[], WindowStore]) -> None:
        self.before, self.after = before, after
        self.of_side = {"left": store(), "right": store()}

    def put(self, x: Record) -> None:
        self.of_side[x.side].put(x)

    def latest(self, x: Record) -> int:
        """The newest timestamp that can join x."""
        # Cut at 0 as the earliest is: under a negative `after` of -3, left @1 does find right @0.
        return max(0, x.timestamp + (self.after if x.side == "left" else self.before))

    def matches(self, x: Record) -> list[Record]:
        is_left = x.side == "left"
        earliest = max(0, x.timestamp - (self.before if is_left else self.after))
        return self.of_side["right" if is_left else "left"].fetch(x.key, earliest, self.latest(x))


class StreamStreamEagerJoin:
    """Profile "0.10.2", or with `kafka4` the eager windows of 4.x."""

    def __init__(self, how: str, before: int, after: int, grace: int, kafka4: bool = False) -> None:
        self.outer_sides = OUTER_SIDES[how]
        self.kafka4 = kafka4
        store = partial(WindowStore, before + after + grace, bounded=kafka4)
        self.partitions = defaultdict[int, JoinStores](partial(JoinStores, before, after, store))

    def process(self, x: Record) -> list[Row]:
        """Pairs of x, or its one-sided row; only then is x stored, so it never meets itself."""
        stores = self.partitions[x.partition]
        if x.value is None:
            return no_row(x, "null-value")
        alone = [one_sided(x, x)] if x.side in self.outer_sides else []
        if x.key is None:
            return (self.kafka4 and alone) or no_row(x, "null-key")
        rows = [pair(x, o) for o in stores.matches(x)]
        stores.put(x)
        return rows or alone or no_row(x, "kept")
