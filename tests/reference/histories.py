"""Generated and literal histories of records, one kind per join family.

A history is a list of records in order of arrival: dense offsets per side and partition, and
`position` counting from 0, so that it can be processed as it stands or split and interleaved.

    stream_stream   few keys, null keys and values, late and out of order
    foreign_key     values "FK|payload" whose key moves, repeats, or is missing ("|payload")
    stream_global   stream values "FK|payload" looked up by FK in the right table

Texts only, so that the same history can be put to the oracle (`rivermeet replay`'s case format).
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from rivermeet.joins.reference.records import Record, Row, by_lowest_head, number_records, run
from rivermeet.joins.stream_global.reference import StreamGlobalJoin
from rivermeet.joins.stream_stream.reference.profile_3_1 import StreamStreamJoin

Line = tuple[str, Any, Any, int]  # side, key, value, timestamp
Draw = tuple[str, Any, Any, int, int]  # side, key, value, step of the clock, delay

STEPS = (0, 0, 1, 1, 2, 3, 5, 12)  # how far the sender's clock moves between two records
DELAYS = (0, 0, 0, 0, 1, 3, 8, 25)  # how much older than that clock a record is


@dataclass(frozen=True)
class Family:
    """What a family's records are made of; a value listed twice is drawn twice as often."""

    left_keys: Sequence[Any]
    left_values: Sequence[Any]
    right_keys: Sequence[Any]
    right_values: Sequence[Any]


FAMILIES = {
    "stream_stream": Family(
        left_keys=("a", "a", "b", "c", None),
        left_values=("L1", "L2", "L3", None),
        right_keys=("a", "a", "b", "c", None),
        right_values=("R1", "R2", "R3", None),
    ),
    # "B" < "p1" < "p10" < "p2" in bytes; "ff" must not be taken for a subscriber of "f".
    "foreign_key": Family(
        left_keys=("p1", "p2", "p10", "B", "é", None),
        left_values=("f|1", "f|1", "f|2", "g|1", "g|2", "ff|1", "|1", None, None),
        right_keys=("f", "f", "g", "ff", None),
        right_values=("x", "x", "y", "z", None, None),
    ),
    "stream_global": Family(
        left_keys=("o1", "o2", "o3", None),
        left_values=("f|1", "f|2", "g|1", "ff|1", "h|1", "|1", None),
        right_keys=("f", "f", "g", "ff", None),
        right_values=("x", "y", "z", None),
    ),
}


def foreign_key_of(_key: Any, value: str) -> str | None:
    """The oracle's extractor: the text before the first "|", null where there is none."""
    head, bar, _ = value.partition("|")
    return head if bar and head else None


def partition_of(key: Any, partitions: int, otherwise: int = 0) -> int:
    """A key always has one partition; a record without key may be in any."""
    return (otherwise if key is None else sum(str(key).encode())) % partitions


def records_of(lines: Sequence[Line], partitions: tuple[int, int] = (1, 1)) -> list[Record]:
    """Lines in order of arrival as records; `partitions` counts those of left and right."""
    offsets: dict[tuple[str, int], int] = {}
    records: list[Record] = []
    for position, (side, key, value, timestamp) in enumerate(lines):
        partition = partition_of(key, partitions[side == "right"], position)
        offset = offsets.get((side, partition), 0)
        offsets[side, partition] = offset + 1
        records.append(Record(side, key, value, timestamp, partition, offset, position))
    return records


def split(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """The two inputs of a history, for `interleave`."""
    return [r for r in records if r.side == "left"], [r for r in records if r.side == "right"]


def histories(family: str, partitions: tuple[int, int] = (1, 1), max_size: int = 30) -> st.SearchStrategy[list[Record]]:
    """Hypothesis strategy; shrinks towards fewer records, in order, of the first key."""
    f = FAMILIES[family]

    def line(side: str, keys: Sequence[Any], values: Sequence[Any]) -> st.SearchStrategy[Draw]:
        fields = (st.sampled_from(choice) for choice in (keys, values, STEPS, DELAYS))
        return st.tuples(st.just(side), *fields)

    either = line("left", f.left_keys, f.left_values) | line("right", f.right_keys, f.right_values)
    return st.lists(either, max_size=max_size).map(lambda d: records_of(timed(d), partitions))


def random_histories(
    seed: int,
    n: int,
    family: str = "stream_stream",
    partitions: tuple[int, int] = (1, 1),
    size: int = 40,
) -> Iterator[list[Record]]:
    """n histories of `size` records, the same for the same seed: large batches without search."""
    rng = random.Random(seed)
    f = FAMILIES[family]
    for _ in range(n):
        draws: list[Draw] = []
        for _ in range(size):
            left = rng.random() < 0.55
            keys, values = (f.left_keys, f.left_values) if left else (f.right_keys, f.right_values)
            side = "left" if left else "right"
            picked = [rng.choice(choice) for choice in (keys, values, STEPS, DELAYS)]
            draws.append((side, picked[0], picked[1], picked[2], picked[3]))
        yield records_of(timed(draws), partitions)


def timed(draws: Sequence[Draw]) -> list[Line]:
    """Timestamps from a clock that only rises, each record sent with its delay."""
    clock = 0
    lines: list[Line] = []
    for side, key, value, step, delay in draws:
        clock += step
        lines.append((side, key, value, max(0, clock - delay)))
    return lines


def interleave_all(left: Iterable[Record], right: Iterable[Record]) -> list[Record]:
    """Order of a join without co-partitioning: the lowest head over all partitions of both inputs.

    Ties go left first, then to the lower partition.
    """
    return number_records(by_lowest_head([*left, *right], lambda r: (r.side, r.partition)))


def in_epoch(join: StreamGlobalJoin, records: Iterable[Record], bootstrap: str = "epoch") -> list[Row]:
    """One batch. "epoch" loads all its table updates first, "given" keeps the order as it is.

    Loading first is KIP-99's start-up rule: with left o@1 before right p@2 in one batch, "given" misses a product that
    was on disk all the time.
    """
    batch = list(records)
    if bootstrap == "epoch":
        batch.sort(key=lambda record: record.side == "left")  # stable: right first
    return run(join, batch)


def still_waiting(join: StreamStreamJoin) -> list[Record]:
    """Records of a stream join that will give a one-sided row unless a partner comes."""
    open_ones = [(state, o) for state in join.partitions.values() for o in state.open if o.side in join.outer_sides]
    return [o for state, o in open_ones if (o.position, o.side) not in state.paired]


# Window 10/10, grace 5 unless a test says otherwise.
NASTY_STREAM_STREAM: list[Line] = [
    ("left", "a", None, 0),  # null value: ignored, but time runs
    ("right", "a", "r0", 0),
    ("left", "a", "A", 10),  # exactly 10 after r0
    ("left", "a", "A", 10),  # equal in everything: a record of its own
    ("right", "b", "s0", 11),
    ("left", "b", "B", 22),  # 11 after s0: no pair
    ("right", "a", "r1", 20),  # out of order, exactly 10 after both A
    ("right", "a", "r2", 21),  # 11 after A
    ("left", None, "N", 22),  # null key: one-sided at once on an outer side
    ("right", None, "n", 21),
    ("right", None, None, 23),
    ("left", "a", "C", 12),  # out of order, meets r1 and r2
    ("left", "c", "D", 25),  # stream time 25 = 10 + 15: both A are closed
    ("right", "a", "r3", 10),  # late: closed at 25 as well
    ("right", "a", "r4", 11),  # one ms later: kept, meets C, but A is closed
    ("left", "c", "E", 26),  # closes s0 (11 + 15)
    ("right", "b", "s1", 32),  # exactly 10 after B
    ("left", "b", None, 40),  # a null value closes D (25 + 15)
    ("right", "d", "t0", 41),  # closes E (26 + 15)
    ("left", "d", "F", 31),  # out of order, exactly 10 before t0
    ("left", "d", "f", 30),  # 11 before t0
    ("left", "d", "G", 51),  # joins t0 first, then closes f (30 + 15)
    ("left", "g", "H", 51),  # two rows of one timestamp:
    ("right", "e", "u", 51),  # the right one leaves first, though it came last
    ("left", "d", "J", 36),  # late by nothing: 36 + 15 = stream time
    ("right", None, "m", 2),  # a null key has no window to be late for
    ("right", "d", "t1", 66),  # closes u and H
    ("left", None, None, 81),  # nothing at all still closes t1 (66 + 15)
    ("left", "a", "Z", 80),
    ("right", "z", "z", 200),  # closes Z; itself waits for ever
]

NASTY_FOREIGN_KEY: list[Line] = [
    ("left", "p1", "f|1", 10),
    ("right", "f", "x", 5),  # older than the left row: its own timestamp stands
    ("left", "p10", "f|1", 3),
    ("left", "p2", "f|1", 12),
    ("left", "B", "ff|1", 12),  # not a subscriber of f
    ("right", "f", "y", 20),  # fan-out p1, p10, p2
    ("right", "f", "y", 21),  # an equal value is emitted again
    ("left", "p1", "f|1", 15),  # an equal left value too
    ("left", "p1", "g|1", 14),  # out of order, and g is unknown
    ("left", "p1", "h|1", 16),  # so is h: a second tombstone in an inner join
    ("right", "g", "w", 17),  # nobody is left at g
    ("left", "p1", "|1", 18),  # null foreign key
    ("left", "p1", "|2", 18),
    ("left", "p1", "g|2", 18),  # from null to valid
    ("right", "g", None, 30),
    ("right", "g", None, 31),  # deleted again: emitted again
    ("left", "p1", "g|2", 19),
    ("left", "p1", None, 40),
    ("left", "p1", None, 41),  # a second delete says nothing
    ("left", "p3", None, 41),  # nor does the delete of what never was
    ("right", None, "v", 42),
    ("left", None, "f|9", 42),
    ("left", "p1", "f|1", 42),  # back again as if new
    ("left", "p2", None, 1),  # out-of-order delete, right row newer
    ("left", "B", "|1", 43),
    ("left", "B", None, 44),  # delete of a row whose foreign key is null
    ("right", "f", None, 45),
    ("left", "p10", None, 46),
]

NASTY_GLOBAL: list[Line] = [
    ("left", "o1", "f|1", 0),  # before its table row, unless the table is loaded first
    ("right", "f", "x", 1),
    ("left", "o1", "f|1", 1),
    ("left", "o1", "f|1", 1),
    ("left", None, "f|2", 2),  # the stream's own key may be null
    ("left", "o2", "|1", 2),  # mapped key null
    ("left", "o2", None, 3),
    ("left", None, None, 3),
    ("right", "f", "y", 0),  # out of order: overwrites nevertheless
    ("left", "o3", "f|1", 3),
    ("right", None, "v", 4),
    ("right", "ff", "z", 4),
    ("left", "o3", "ff|1", 4),
    ("left", "o3", "g|1", 4),
    ("right", "f", None, 5),
    ("left", "o4", "f|1", 9),
    ("left", "o4", "f|1", 6),  # out of order
    ("right", "f", None, 7),
    ("right", "g", None, 7),  # delete of what never was
    ("left", "o4", "g|1", 8),
    ("right", "f", "w", 8),
    ("left", "o5", "f|1", 8),
    ("left", "o5", "f", 10),  # no bar, no key
    ("left", "o5", "", 10),
    ("right", "g", "q", 50),  # newer than the record that asks
    ("left", "o6", "g|1", 11),
]
