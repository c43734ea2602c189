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

from collections import defaultdict
from dataclasses import replace
from functools import partial

from rivermeet.joins.reference.records import Record, Row, no_row
from rivermeet.joins.stream_stream.reference.profile_0_10_2 import JoinStores, WindowStore
from rivermeet.joins.stream_stream.reference.profile_3_1 import OUTER_SIDES, one_sided, pair

RETENTION = 24 * 60 * 60 * 1000
SEGMENT = RETENTION // 2


class EarlyStore(WindowStore):
    """The records of one side in the newest three segments, whatever window and grace."""

    def put(self, x: Record) -> None:
        """A null value is a delete of nothing: not stored, but it moves time."""
        super().put(x)
        self.records = [o for o in self.records if o.value is not None]

    def _segment(self, timestamp: int) -> int:
        return timestamp // SEGMENT


class StreamStreamEarlyJoin:
    """Profile "0.10.0". Right records from `before` ms earlier to `after` ms later than a left one."""

    def __init__(self, how: str, before: int, after: int) -> None:
        self.how, self.outer_sides = how, OUTER_SIDES[how]
        store = partial(EarlyStore, RETENTION, bounded=False)
        self.partitions = defaultdict[int, JoinStores](partial(JoinStores, before, after, store))

    def process(self, x: Record) -> list[Row]:
        """Pairs of x, or its one-sided row; only then is x stored."""
        stores = self.partitions[x.partition]
        if x.key is None:
            return no_row(x, "null-key")
        joins = x.side == "left" or self.how != "left"
        rows = [replace(pair(x, o), timestamp=x.timestamp) for o in stores.matches(x)] if joins else []
        stores.put(x)
        return rows or ([one_sided(x, x)] if x.side in self.outer_sides else no_row(x, "kept"))
