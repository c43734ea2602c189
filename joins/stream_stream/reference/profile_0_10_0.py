"""Stream-stream join of the first releases: eager, null values join, a left join only looks up.

Left join, window 10/10:

    left  k A@0     (A, null)@0
    right k a@8     nothing: a right record is stored, never joined
    left  k B@9     (B, a)@9
    left  k null@9  (null, a)@9: a null value is a value

Every row has the timestamp of the record that caused it, and there is no grace: a side's store
keeps three segments of twelve hours, counted back from the one with its newest record.

Profile "0.10.0", proven on 0.10.1.1; 0.10.0.1 differs in not mirroring the window for a right record,
and in throwing at a left null key of a left join. Source: docs/kafka-streams.md 3.
"""

from dataclasses import dataclass, field, replace

from rivermeet.joins.reference.records import Record, Row, no_row
from rivermeet.joins.stream_stream.reference.profile_0_10_2 import OUTER_SIDES
from rivermeet.joins.stream_stream.reference.profile_3_1 import one_sided, pair

SEGMENTS = 3
SEGMENT = 24 * 60 * 60 * 1000 // (SEGMENTS - 1)  # a day's default retention


@dataclass
class EarlyStore:
    """The records of one side in the newest three segments, whatever window and grace."""

    newest: int = -1
    records: list[Record] = field(default_factory=list[Record])

    def put(self, x: Record) -> None:
        """A null value is a delete of nothing: not stored, but it moves time."""
        self.newest = max(self.newest, x.timestamp // SEGMENT)
        stored = [x] if x.value is not None else []
        self.records = [o for o in self.records + stored if o.timestamp // SEGMENT > self.newest - SEGMENTS]

    def fetch(self, key: str, earliest: int, latest: int) -> list[Record]:
        """Both ends inclusive, by timestamp, equal ones as they came."""
        found = [o for o in self.records if o.key == key and earliest <= o.timestamp <= latest]
        return sorted(found, key=lambda o: o.timestamp)


class StreamStreamEarlyJoin:
    """Profile "0.10.0". Right records from `before` ms earlier to `after` ms later than a left one."""

    def __init__(self, how: str, before: int, after: int) -> None:
        self.how = how
        self.outer_sides = OUTER_SIDES[how]
        self.before, self.after = before, after
        self.partitions: dict[int, dict[str, EarlyStore]] = {}

    def process(self, x: Record) -> list[Row]:
        """Pairs of x, or its one-sided row; only then is x stored."""
        stores = self.partitions.setdefault(x.partition, {"left": EarlyStore(), "right": EarlyStore()})
        if x.key is None:
            return no_row(x, "null-key")
        joins = x.side == "left" or self.how != "left"
        rows = [replace(pair(x, o), timestamp=x.timestamp) for o in self._matches(stores, x)] if joins else []
        stores[x.side].put(x)
        return rows or ([one_sided(x, x)] if x.side in self.outer_sides else no_row(x, "kept"))

    def _matches(self, stores: dict[str, EarlyStore], x: Record) -> list[Record]:
        is_left = x.side == "left"
        before, after = (self.before, self.after) if is_left else (self.after, self.before)
        # Cut at 0 as in every release: with `after` -3, left @1 does find right @0.
        earliest, latest = max(0, x.timestamp - before), max(0, x.timestamp + after)
        return stores["right" if is_left else "left"].fetch(x.key, earliest, latest)
