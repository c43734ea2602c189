"""Stream-stream join: a pair needs both windows open, a one-sided row needs its window closed.

Window 10/10, grace 5, left join; `close` of a record is its timestamp + 10 + 5:

    left  k A@0    kept, open until stream time reaches 15
    right k a@8    (A, a)@8: within ten of each other
    left  k B@20   kept, open until 35; stream time 20
    left  x C@35   (B, null)@20: stream time has reached 35 and B never found a partner

Source: the wiki's improved left/outer join (3.1 and newer, golden `s000.ss.v31.*`), docs/laws.md
"Stream - stream"; null keys after KIP-962.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rivermeet.joins.reference.records import Record, Row, join_records, no_row, sides

BEGINNING = -(2**63)  # stream time of a partition that has seen nothing
OUTER_SIDES = {"inner": (), "left": ("left",), "outer": ("left", "right")}


@dataclass
class Partition:
    """What one partition remembers: its stream time and the records whose window is open."""

    stream_time: int = BEGINNING
    open: list[Record] = field(default_factory=list[Record])
    paired: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])


class StreamStreamJoin:
    """Profile "3.1". Right records from `before` ms earlier to `after` ms later than a left one."""

    def __init__(self, how: str, before: int, after: int, grace: int) -> None:
        self.outer_sides = OUTER_SIDES[how]
        self.before, self.after, self.grace = before, after, grace
        self.partitions: dict[int, Partition] = {}
        self.late: list[Record] = []

    def close(self, record: Record) -> int:
        """The stream time at which this record's window is closed for ever."""
        # A negative bound would close the window before its own record, and call records in order late.
        bound = self.after if record.side == "left" else self.before
        return record.timestamp + max(bound, 0) + self.grace

    def process(self, x: Record) -> list[Row]:
        """Pairs of x first, then the rows that x closes by moving stream time.

        The other way round, left A@0 and right a@10 under window 10/10 without grace would give
        (A, null): the pair lies exactly on the edge, and it is a itself that closes A.
        """
        return self.process_copies([x])

    def process_copies(self, copies: Sequence[Record]) -> list[Row]:
        """The same for one record, on the sides that it comes from."""
        x = copies[0]
        state = self.partitions.setdefault(x.partition, Partition())
        rows = [row for copy in copies for row in self._join(state, copy)]
        # Null and late records too: a record that joins nothing still advances stream time.
        state.stream_time = max(state.stream_time, x.timestamp)
        return rows + self._close(state, x)

    def _join(self, state: Partition, x: Record) -> list[Row]:
        """Pairs of x, which is open from now on unless it is late."""
        if x.value is None:
            return no_row(x, "null-value")
        if x.key is None:
            return [one_sided(x, x)] if x.side in self.outer_sides else no_row(x, "null-key")
        if state.stream_time >= self.close(x):
            self.late.append(x)
            return no_row(x, "late", stream_time=state.stream_time, close=self.close(x))
        waits = "waiting" if x.side in self.outer_sides else "kept"
        rows = self._pairs(state, x) or no_row(x, waits, close=self.close(x))
        state.open.append(x)
        return rows

    def _pairs(self, state: Partition, x: Record) -> list[Row]:
        rows: list[Row] = []
        for o in sorted(state.open, key=lambda o: (o.timestamp, o.position)):
            left, right = (x, o) if x.side == "left" else (o, x)
            if o.side == x.side or o.key != x.key:
                continue
            if left.timestamp - self.before <= right.timestamp <= left.timestamp + self.after:
                state.paired |= {(x.position, x.side), (o.position, o.side)}
                rows.append(pair(x, o))
        return rows

    def _close(self, state: Partition, x: Record) -> list[Row]:
        closed = [o for o in state.open if state.stream_time >= self.close(o)]
        state.open = [o for o in state.open if state.stream_time < self.close(o)]
        unpaired = [o for o in closed if (o.position, o.side) not in state.paired]
        # A closed record is never looked up again, so its pairs may be forgotten.
        state.paired -= {(o.position, o.side) for o in closed}
        return [
            one_sided(o, x)
            for o in sorted(unpaired, key=lambda o: (o.timestamp, o.side == "left", o.position))
            if o.side in self.outer_sides
        ]


class StreamStreamSelfJoin(StreamStreamJoin):
    """A record is a left and a right one in one step.

    Window -3/9, no grace, left join; `close` of a left copy is its timestamp + 9, of a right one its timestamp:

        k A@0     nothing: A is not 3 ms later than itself
        k B@4     (A, B)@4: B as right is 4 ms later than A; as left it would need a right one from 7 on
        x C@20    (B, null)@4: the left copy of B closed at 13 without a partner

    Both copies of x are late or not by the stream time before x; the left one's must not make the right one late.

    Source: profile "3.1" of `StreamStreamJoin`, which no release of Kafka Streams runs; one step, as the
    record is one.
    """

    def process(self, x: Record) -> list[Row]:
        """Pairs of x as left, then as right; only then does stream time move."""
        return self.process_copies([replace(x, side="left"), replace(x, side="right")])


def pair(x: Record, o: Record) -> Row:
    """The row of x and an earlier o of the other side, at the later of both timestamps."""
    return join_records(x.key, *sides(x, o), max(x.timestamp, o.timestamp), x)


def one_sided(record: Record, trigger: Record) -> Row:
    """The row of an unmatched record, at its own timestamp, whichever record triggers it."""
    rule = "null-key" if record.key is None else "alone" if record is trigger else "closed"
    return join_records(record.key, *sides(record), record.timestamp, trigger, rule)
