"""Stream-stream join: a pair needs both windows open, a one-sided row needs its window closed.

Window 10/10, grace 5, left join; `close` of a record is its timestamp + 10 + 5:

    left  k A@0    kept, open until stream time reaches 15
    right k a@8    (A, a)@8: within ten of each other
    left  k B@20   kept, open until 35; stream time 20
    left  x C@35   (B, null)@20: stream time has reached 35 and B never found a partner

Source: the wiki's improved left/outer join (3.1 and newer, golden `s000.ss.v31.*`), docs/laws.md
"Stream - stream"; null keys after KIP-962.
"""

from dataclasses import dataclass, field

from rivermeet.joins.reference.records import Record, Row

BEGINNING = -(2**63)  # stream time of a partition that has seen nothing


@dataclass(frozen=True)
class Late:
    """A dropped record, with what shows that it was late: stream time >= close."""

    record: Record
    stream_time: int
    close: int


@dataclass
class Partition:
    """What one partition remembers: its stream time and the records whose window is open."""

    stream_time: int = BEGINNING
    open: list[Record] = field(default_factory=list[Record])
    paired: set[int] = field(default_factory=set[int])


class StreamStreamJoin:
    """Profile "3.1". Right records from `before` ms earlier to `after` ms later than a left one."""

    def __init__(self, how: str, before: int, after: int, grace: int) -> None:
        if how not in ("inner", "left", "outer"):
            raise ValueError(f"how is {how!r}; choose inner, left or outer")
        self.outer_sides = {"inner": (), "left": ("left",), "outer": ("left", "right")}[how]
        self.before, self.after, self.grace = before, after, grace
        self.partitions: dict[int, Partition] = {}
        self.late: list[Late] = []

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
        state = self.partitions.setdefault(x.partition, Partition())
        rows: list[Row] = []
        if x.value is None:
            pass
        elif x.key is None:
            rows = [one_sided(x, x)] if x.side in self.outer_sides else []
        elif state.stream_time >= self.close(x):
            self.late.append(Late(x, state.stream_time, self.close(x)))
        else:
            rows = self._pairs(state, x)
            state.open.append(x)
        # Null and late records too: a record nobody joins still says what time it is.
        state.stream_time = max(state.stream_time, x.timestamp)
        return rows + self._closed(state, x)

    def waiting(self) -> list[Record]:
        """Records that will give a one-sided row unless a partner comes."""
        return [
            o
            for state in self.partitions.values()
            for o in state.open
            if o.side in self.outer_sides and o.position not in state.paired
        ]

    def _pairs(self, state: Partition, x: Record) -> list[Row]:
        rows: list[Row] = []
        for o in sorted(state.open, key=lambda o: (o.timestamp, o.position)):
            left, right = (x, o) if x.side == "left" else (o, x)
            if o.side == x.side or o.key != x.key:
                continue
            if left.timestamp - self.before <= right.timestamp <= left.timestamp + self.after:
                state.paired |= {x.position, o.position}
                rows.append(paired(x, o))
        return rows

    def _closed(self, state: Partition, x: Record) -> list[Row]:
        closed = [o for o in state.open if state.stream_time >= self.close(o)]
        state.open = [o for o in state.open if state.stream_time < self.close(o)]
        unpaired = [o for o in closed if o.position not in state.paired]
        # A closed record is never looked up again, so what it paired with may be forgotten.
        state.paired -= {o.position for o in closed}
        return [
            one_sided(o, x)
            for o in sorted(unpaired, key=lambda o: (o.timestamp, o.side == "left", o.position))
            if o.side in self.outer_sides
        ]


def paired(x: Record, o: Record) -> Row:
    """The row of x and an earlier o of the other side, at the later of both timestamps."""
    left, right = (x, o) if x.side == "left" else (o, x)
    return Row(
        key=x.key,
        value=(left.value, right.value),
        timestamp=max(x.timestamp, o.timestamp),
        trigger=x.position,
        left=left.position,
        right=right.position,
    )


def one_sided(record: Record, trigger: Record) -> Row:
    """The row of an unmatched record, at its own timestamp, whichever record triggers it."""
    is_left = record.side == "left"
    return Row(
        key=record.key,
        value=(record.value, None) if is_left else (None, record.value),
        timestamp=record.timestamp,
        trigger=trigger.position,
        left=record.position if is_left else None,
        right=None if is_left else record.position,
    )
