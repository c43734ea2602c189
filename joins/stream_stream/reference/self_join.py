"""Self-join of profile "3.1": a record is a left and a right one in one step.

Window -3/9, no grace, left join; `close` of a left copy is its timestamp + 9, of a right one its timestamp:

    k A@0     nothing: A is not 3 ms later than itself
    k B@4     (A, B)@4: B as right is 4 ms later than A; as left it would need a right one from 7 on
    x C@20    (B, null)@4: the left copy of B closed at 13 without a partner

Both copies of x are late or not by the stream time before x; the left one's must not make the right one late.

Source: profile "3.1" of `StreamStreamJoin`, which no release of Kafka Streams runs; one step, as the
record is one.
"""

from dataclasses import replace

from rivermeet.joins.reference.records import Record, Row, no_row
from rivermeet.joins.stream_stream.reference.profile_3_1 import Late, Partition, StreamStreamJoin, one_sided, paired


class StreamStreamSelfJoin(StreamStreamJoin):
    """Profile "3.1". `paired` holds copies: position and side."""

    def __init__(self, how: str, before: int, after: int, grace: int) -> None:
        super().__init__(how, before, after, grace)
        self.paired_copies: set[tuple[int, str]] = set()

    def process(self, x: Record) -> list[Row]:
        """Pairs of x as left, then as right; only then does stream time move."""
        state = self.partitions.setdefault(x.partition, Partition())
        rows: list[Row] = []
        for copy in (replace(x, side="left"), replace(x, side="right")):
            if x.value is None:
                no_row(copy, "null-value")
            elif x.key is None:
                rows += [one_sided(copy, x)] if copy.side in self.outer_sides else no_row(copy, "null-key")
            elif state.stream_time >= self.close(copy):
                self.late.append(Late(copy, state.stream_time, self.close(copy)))
                no_row(copy, "late", stream_time=state.stream_time, close=self.close(copy))
            else:
                waits = "waiting" if copy.side in self.outer_sides else "kept"
                rows += self._copys_pairs(state, copy) or no_row(copy, waits, close=self.close(copy))
                state.open.append(copy)
        state.stream_time = max(state.stream_time, x.timestamp)
        closed = [o for o in state.open if state.stream_time >= self.close(o)]
        state.open = [o for o in state.open if state.stream_time < self.close(o)]
        alone = [o for o in closed if (o.position, o.side) not in self.paired_copies and o.side in self.outer_sides]
        alone.sort(key=lambda o: (o.timestamp, o.side == "left", o.position))
        return rows + [one_sided(o, x) for o in alone]

    def _copys_pairs(self, state: Partition, x: Record) -> list[Row]:
        rows: list[Row] = []
        for o in sorted(state.open, key=lambda o: (o.timestamp, o.position)):
            left, right = (x, o) if x.side == "left" else (o, x)
            if o.side == x.side or o.key != x.key:
                continue
            if left.timestamp - self.before <= right.timestamp <= left.timestamp + self.after:
                self.paired_copies |= {(x.position, x.side), (o.position, o.side)}
                rows.append(paired(x, o))
        return rows
