"""The records of one key, put through the family's reference join again: which row each made, or by which rule none.

    left  k A@0      waits                                   trace: waiting
    clock @35        all that other keys did here            it moves stream time, and nothing else
    left  k B@20     dropped: its window has closed          trace: late

What a few records lack of the whole history is how far time had gone under other keys. Before each of them a record of
nobody's key is put in, with the highest timestamp that its input had reached. Records without key or value count as any
others there, which is too far for some joins: where the replay has no such row as was committed, it is tried without
clocks. Of that replay and the rows that clocks released in the first, the one that agrees with the committed row is
taken; without any, only the trigger is named, and that this is not sure. Held by ``tests/joins/why/test_recorded.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rivermeet.joins.reference.records import Asks, Join, NoRow, Record, Row, Value, reference_module
from rivermeet.joins.why.evidence import Evidence, Found, Key, Order, ResultRow, Unknown
from rivermeet.pipelines import Operation

PASSED_OVER = ("not-latest", "expired")
"""Rules by which a versioned table does not take a record for its row."""
Pointer = Key | Unknown | None
"""The key of the other side that a record points to; None if any part of it is null."""
Place = tuple[str, int, int]


class Nobody:
    """The key column of a clock; it sorts before all."""

    def __lt__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return False


NOBODY = (Nobody(),)


@dataclass
class Replay:
    """The result of the reference for some records.

    Attributes
    ----------
    clocks
        Evidence of how far time had gone; None without.
    records
        Those that were consumed, by position; None is a clock.
    unread
        Those that were not consumed yet.
    rows
        What the reference gave.
    traces
        Why a record gave no row, by position.
    points
        What records point to.
    reached
        The highest timestamp of a side's partition that was put in.
    """

    operation: Operation
    join: Join
    asks: Asks
    clocks: Evidence | None = None
    records: list[Found | None] = field(default_factory=list)
    unread: list[Found] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    traces: list[list[NoRow]] = field(default_factory=list)
    points: dict[Place, Pointer] = field(default_factory=dict)
    positions: dict[Place, int] = field(default_factory=dict)
    reached: dict[tuple[str, int], int] = field(default_factory=dict)

    def place(self, one: Found) -> Place:
        """What distinguishes records; each of a stream that is joined with itself is one."""
        return self._side(one.side), one.partition, one.offset

    def _side(self, side: str) -> str:
        return "left" if self.operation.is_self_join else side

    def of_key(self, side: str, key: Key) -> list[Found]:
        """A side's records of a key, in order, and then those that were not consumed yet."""
        own = [
            one for one in (*self.records, *self.unread) if one is not None and self._side(one.side) == self._side(side)
        ]
        return [one for one in own if values_of(one.key) == values_of(key)]

    def find_standing(self, side: str, key: Key, at: float = math.inf) -> Found | None:
        """The record that a table has of a key after a position, which may be a tombstone; None before the first."""
        found = None
        for one in self.of_key(side, key):
            place = self.positions.get(self.place(one), math.inf)
            if (
                one.order is not None
                and place <= at
                and not any(n.rule in PASSED_OVER for n in self.traces[int(place)])
            ):
                found = one
        return found

    def rule(self, record: Found) -> NoRow | None:
        """Why a record gave no row, as recorded last."""
        at = self.positions.get(self.place(record))
        return self.traces[at][-1] if at is not None and self.traces[at] else None

    def pointer(self, record: Found) -> Pointer:
        """The key of the other side that a record points to."""
        return self.points.get(self.place(record))

    def alike(self, committed: ResultRow) -> list[Row]:
        """The replayed rows that may be the committed one, by its records or by its trigger; the last one first."""
        offsets = {"left": committed.left_offset, "right": committed.right_offset}
        if set(offsets.values()) != {None}:
            own = [row for row in reversed(self.rows) if row.key == values_of(committed.key)]
            named = {side: at for side, at in offsets.items() if at is not None}
            return [row for row in own if {side: one.offset for side, one in self.parts(row).items() if one} == named]
        like, at = self._like(committed), self.positions.get(self.place(committed.trigger))
        # What a commit gives names the last record of its epoch in the row's partition; replayed, in all partitions.
        return [row for row in like if row.trigger == at] or [
            row for row in like if at is not None and self._share_commit(row.trigger, at)
        ]

    def find_released(self, committed: ResultRow) -> list[Row]:
        """The rows like the committed one whose wait a clock ended: it may stand for a record that moves no time."""
        return [row for row in self._like(committed) if self.records[row.trigger] is None]

    def _like(self, committed: ResultRow) -> list[Row]:
        wanted = values_of(committed.key), committed.timestamp, committed.value is None
        return [row for row in reversed(self.rows) if (row.key, row.timestamp, row.value is None) == wanted]

    def _share_commit(self, *positions: int) -> bool:
        waited = [any(one.rule == "commit" for one in self.traces[at]) for at in positions]
        orders = [one.order for one in (self.records[at] for at in positions) if one is not None]
        # A clock is of no epoch.
        return all(waited) and len(orders) == len(positions) and len({order and order[0] for order in orders}) == 1

    def parts(self, row: Row) -> dict[str, Found | None]:
        """Side to the record that a row has of it."""
        return {side: self.records[at] for side, at in (("left", row.left), ("right", row.right)) if at is not None}

    def process(self, consumed: Sequence[Found], given: Mapping[Place, Mapping[str, Any]]) -> None:
        """Put records in their order, with clocks before them and commits at the ends of epochs."""
        commit, epoch = getattr(self.join, "commit", list), None
        for one in consumed:
            assert one.order is not None
            if epoch not in (None, one.order[0]):
                self._keep(commit())
            epoch = one.order[0]
            self._clock(one.partition, one.order)
            self.positions[self.place(one)] = len(self.records)
            self._put(one, values_of(one.key), given.get(self.place(one), {}), shown=one)
        self._keep(commit())
        for partition in {one.partition for one in consumed}:
            self._clock(partition, (math.inf,))

    def _clock(self, partition: int, before: Order) -> None:
        for side in {self._side(side): None for side in self.operation.inputs}:
            time = None if self.clocks is None else self.clocks.stream_time(side, partition, before)
            if time is not None and time > self.reached.get((side, partition), -math.inf):
                self._put(Found(side, None, {}, time, partition, -1), NOBODY, {})

    def _put(self, one: Found, key: Any, found: Mapping[str, Any], shown: Found | None = None) -> None:
        side, trace = self._side(one.side), list[NoRow]()
        cells = {name: found.get(name) for name in self.asks.get(side, ())}
        cells = {name: None if isinstance(cell, Unknown) else cell for name, cell in cells.items()}
        value = None if one.value is None else Value(one.value, found=cells)
        at, place = len(self.records), (side, one.partition)
        self.records.append(shown)
        self.traces.append(trace)
        if key is not None and value is not None:
            self.reached[place] = max(one.timestamp, self.reached.get(place, one.timestamp))
        x = Record(side, key, value, one.timestamp, one.partition, position=at, found=cells, trace=trace)
        self._keep(self.join.process(x))

    def _keep(self, rows: Sequence[Row]) -> None:
        self.rows += [row for row in rows if NOBODY[0] not in (row.key or ())]


@dataclass(frozen=True)
class Met:
    """The records of a row, and its rule of `joins.reference.records.RULES`.

    Attributes
    ----------
    at
        Position in the replay of the record that caused it.
    is_end
        Whether the row is a tombstone.
    """

    key: Key | None
    rule: str
    left: Found | None
    right: Found | None
    trigger: Found
    at: float
    is_end: bool

    @property
    def parts(self) -> dict[str, Found | None]:
        """Side to its record."""
        return {"left": self.left, "right": self.right}


def replay(
    operation: Operation, keys: Mapping[str, Key], evidence: Evidence, also: Sequence[Found] = (), clocks: bool = True
) -> Replay:
    """Put the records of some keys through the reference, and those that they point to.

    Parameters
    ----------
    keys
        Side to its key; the side of a join that has none here is what records of the other one point to.
    also
        Further records, such as what triggered a row.
    clocks
        Whether clocks are put in.
    """
    reference = reference_module(operation)
    made = Replay(operation, reference.reference_of(operation), reference.asks(operation))
    made.clocks = evidence if clocks and time_decides(operation) else None
    listed = [*also, *(one for side, key in keys.items() for one in evidence.records(side, key))]
    found = {made.place(one): one for one in listed}
    given: dict[Place, Mapping[str, Any]] = {}
    for side, asked in made.asks.items():
        own = {place: one for place, one in found.items() if place[0] == side}
        given |= zip(own, evidence.evaluate(side, asked, [*own.values()]) if own else (), strict=True)
    if operation.joins_sides and made.asks:
        (pointing,) = made.asks
        pointed = "right" if pointing == "left" else "left"
        names = list(operation.inputs[pointed].key)
        caused = next((one.key for one in also if one.side == pointed), None)
        made.points = {place: _pointer(cells, names, caused) for place, cells in given.items()}
        known = {place: key for place, key in made.points.items() if isinstance(key, Mapping)}
        given |= known
        wanted = {} if pointed in keys else {values_of(key): key for key in known.values()}
        found |= {made.place(one): one for key in wanted.values() for one in evidence.records(pointed, key)}
    made.unread = [one for one in found.values() if one.order is None]
    consumed = [(one.order, one) for one in found.values() if one.order is not None]
    # Where tables go first in an epoch, they do so before what else sorts it.
    first = "left" if operation.table_first else ""
    consumed.sort(key=lambda pair: (pair[0][0], pair[1].side == first, *pair[0][1:]))
    made.process([one for _, one in consumed], given)
    return made


def time_decides(operation: Operation) -> bool:
    """Whether time under other keys decides of records: by windows, a history, or a grace."""
    versioned = any(getattr(node, "history", None) is not None for node in operation.inputs.values())
    return operation.open_ms is not None or operation.delays_rows or versioned


def _pointer(cells: Mapping[str, Any], names: Sequence[str], caused: Key | None) -> Pointer:
    """What a record points to; where only Spark can evaluate it, the record that caused the row."""
    key = {name: cells[name] for name in names}
    unknown = next((cell for cell in key.values() if isinstance(cell, Unknown)), None)
    if unknown is not None:
        return caused or unknown
    return None if None in key.values() else key


def values_of(key: Key | None) -> tuple[Any, ...] | None:
    """A key as the references have it."""
    return None if key is None else tuple(key.values())
