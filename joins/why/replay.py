"""The records of one key, put through the family's reference join again: which row each made, or by which rule none.

    left  k A@0      waits                                   trace: waiting
    clock @35        all that other keys did here            it moves stream time, and nothing else
    left  k B@20     dropped: its window has closed          trace: late

What a few records lack of the whole history is how far time had gone under other keys. Before each of them a record of
nobody's key is put in, with the highest timestamp that its input had reached. Records without key or value count as any
others there, which is too far for some joins: where the replay has no such row as was committed, it is tried without
clocks, and then only the trigger is named, and that this is not sure. Held by ``tests/joins/why/test_recorded.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rivermeet.joins.reference.families import Asks, reference_module
from rivermeet.joins.reference.records import Join, NoRow, Record, Row, Value
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
    """What the reference made of some records.

    Attributes
    ----------
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
    time
        What stream time has reached by now; None where no window asks for it.
    """

    operation: Operation
    records: list[Found | None] = field(default_factory=list)
    unread: list[Found] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    traces: list[list[NoRow]] = field(default_factory=list)
    points: dict[Place, Pointer] = field(default_factory=dict)
    positions: dict[Place, int] = field(default_factory=dict)
    time: int | None = None

    def place(self, one: Found) -> Place:
        """What distinguishes records; each of a stream that is joined with itself is one."""
        return "left" if self.operation.is_self_join else one.side, one.partition, one.offset

    def of_key(self, side: str, key: Key) -> list[Found]:
        """A side's records of a key, in order, and then those that were not consumed yet."""
        found = [
            one for one in (*self.records, *self.unread) if one is not None and values_of(one.key) == values_of(key)
        ]
        return [one for one in found if self.place(one)[0] == ("left" if self.operation.is_self_join else side)]

    def standing(self, side: str, key: Key, at: float = math.inf) -> Found | None:
        """The record that a table has of a key after a position, which may be a tombstone; None before the first."""
        found = [(self.positions[self.place(one)], one) for one in self.of_key(side, key) if one.order is not None]
        taken = [one for place, one in found if place <= at and not self._is_passed_over(place)]
        return taken[-1] if taken else None

    def _is_passed_over(self, at: int) -> bool:
        return any(note.rule in PASSED_OVER for note in self.traces[at])

    def rule(self, record: Found) -> NoRow | None:
        """Why a record gave no row, as it was said last."""
        at = self.positions.get(self.place(record))
        return self.traces[at][-1] if at is not None and self.traces[at] else None

    def pointer(self, record: Found) -> Pointer:
        """The key of the other side that a record points to."""
        return self.points.get(self.place(record))

    def alike(self, committed: ResultRow, trigger: Found) -> list[Row]:
        """The replayed rows that may be the committed one, by its records or by its trigger; the last one first."""
        offsets, at = (committed.left_offset, committed.right_offset), self.positions.get(self.place(trigger))
        wanted = (at, committed.timestamp, committed.value is None)
        return [
            row
            for row in reversed(self.rows)
            if row.key == values_of(committed.key)
            and (
                (row.trigger, row.timestamp, row.value is None) == wanted
                if offsets == (None, None)
                else (self._offset(row.left), self._offset(row.right)) == offsets
            )
        ]

    def parts(self, row: Row) -> dict[str, Found | None]:
        """Side to the record that a row has of it."""
        return {side: self.records[at] for side, at in (("left", row.left), ("right", row.right)) if at is not None}

    def _offset(self, at: int | None) -> int | None:
        found = None if at is None else self.records[at]
        return None if found is None else found.offset


def replay(
    operation: Operation, keys: Mapping[str, Key], evidence: Evidence, also: Iterable[Found] = (), clocks: bool = True
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
    made, reference = Replay(operation), reference_module(operation)
    asks, also = reference.asks(operation), list(also)
    found = {made.place(one): one for side, key in keys.items() for one in evidence.records(side, key)}
    found = {made.place(one): one for one in also} | found
    given = _evaluated(asks, found, evidence)
    if operation.joins_sides and asks:
        (pointing,) = asks
        pointed = "right" if pointing == "left" else "left"
        names = list(operation.inputs[pointed].key)
        caused = next((one.key for one in also if one.side == pointed), None)
        made.points = {place: _pointer(cells, names, caused) for place, cells in given.items()}
        known = {place: key for place, key in made.points.items() if isinstance(key, Mapping)}
        given |= known
        if pointed not in keys:
            for key in {values_of(key): key for key in known.values()}.values():
                found |= {made.place(one): one for one in evidence.records(pointed, key)}
    made.unread = [one for one in found.values() if one.order is None]
    run = _Run(made, reference.reference_of(operation), asks, evidence if clocks and time_decides(operation) else None)
    for one in sorted((one for one in found.values() if one.order is not None), key=lambda one: _sorts(operation, one)):
        run.process(one, given.get(made.place(one), {}))
    run.close()
    return made


@dataclass
class _Run:
    """The reference at work, with clocks before records and commits at the ends of epochs."""

    made: Replay
    join: Join
    asks: Asks
    evidence: Evidence | None
    reached: dict[tuple[str, int], int] = field(default_factory=dict)
    epoch: float | None = None

    def process(self, one: Found, found: Mapping[str, Any]) -> None:
        assert one.order is not None
        if self.epoch not in (None, one.order[0]):
            self._commit()
        self.epoch = one.order[0]
        self._clock(one.partition, one.order)
        self.made.positions[self.made.place(one)] = len(self.made.records)
        self._put(one, one, found)

    def close(self) -> None:
        """The last commit, and what time has reached by now."""
        self._commit()
        for partition in {one.partition for one in self.made.records if one is not None}:
            self._clock(partition, (math.inf,))
        if self.made.operation.open_ms is not None:
            self.made.time = max(self.reached.values(), default=None)

    def _commit(self) -> None:
        self._keep(getattr(self.join, "commit", list)())

    def _clock(self, partition: int, before: Order) -> None:
        if self.evidence is None:
            return
        for side in ("left",) if self.made.operation.is_self_join else self.made.operation.inputs:
            time = self.evidence.reached(side, partition, before)
            if time is not None and time > self.reached.get((side, partition), -math.inf):
                self._put(Found(side, None, {}, time, partition, -1), None, {})

    def _put(self, one: Found, shown: Found | None, found: Mapping[str, Any]) -> None:
        side = self.made.place(one)[0]
        cells = {name: found.get(name) for name in self.asks.get(side, ())}
        cells = {name: None if isinstance(cell, Unknown) else cell for name, cell in cells.items()}
        trace: list[NoRow] = []
        record = Record(
            side,
            NOBODY if shown is None else values_of(one.key),
            None if one.value is None else Value(one.value, found=cells),
            one.timestamp,
            one.partition,
            position=len(self.made.records),
            found=cells,
            trace=trace,
        )
        self.made.records.append(shown)
        self.made.traces.append(trace)
        if record.key is not None and record.value is not None:
            self.reached[side, one.partition] = max(
                one.timestamp, self.reached.get((side, one.partition), one.timestamp)
            )
        self._keep(self.join.process(record))

    def _keep(self, rows: Sequence[Row]) -> None:
        self.made.rows += [row for row in rows if NOBODY[0] not in (row.key or ())]


def time_decides(operation: Operation) -> bool:
    """Whether time under other keys decides of records: by windows, a history, or a grace."""
    versioned = any(getattr(node, "history", None) is not None for node in operation.inputs.values())
    return operation.open_ms is not None or operation.delays_rows or versioned


def _evaluated(asks: Asks, found: Mapping[Place, Found], evidence: Evidence) -> dict[Place, Mapping[str, Any]]:
    given: dict[Place, Mapping[str, Any]] = {}
    for side, asked in asks.items():
        own = {place: one for place, one in found.items() if place[0] == side}
        if own:
            given |= zip(own, evidence.evaluated(side, asked, [*own.values()]), strict=True)
    return given


def _pointer(cells: Mapping[str, Any], names: Sequence[str], caused: Key | None) -> Pointer:
    """What a record points to; where only Spark can tell it, the record that caused the row."""
    key = {name: cells[name] for name in names}
    unknown = next((cell for cell in key.values() if isinstance(cell, Unknown)), None)
    if unknown is not None:
        return caused or unknown
    return None if None in key.values() else key


def _sorts(operation: Operation, one: Found) -> tuple[float, ...]:
    assert one.order is not None
    epoch, *within = one.order
    return (epoch, operation.table_first and one.side == "left", *within)


def values_of(key: Key | None) -> tuple[Any, ...] | None:
    """A key as the references have it."""
    return None if key is None else tuple(key.values())
