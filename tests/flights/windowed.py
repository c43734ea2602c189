"""The windowed left join of the flights, record by record: the laws of docs/laws.md as a loop."""

# pandas has no types of its own: pyright reads its source and takes every column for a frame, a series or an array.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportReturnType=false

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from tests.flights.recompute import FLIGHT_KEY

LEFT, RIGHT = 0, 1


class LeftJoin(NamedTuple):
    """What `left_join` finds.

    ``rows``: positions (``left``, ``right``; null right for a one-sided row) with ``_timestamp``, ``partition`` and the
    ``epoch`` that emits. ``late``: ``side`` and ``position`` of records that came after their window had closed.
    ``lag``: per side, the furthest in ms that a record was behind the stream time it met.
    """

    rows: pd.DataFrame
    late: pd.DataFrame
    lag: dict[str, int]


@dataclass
class _Kept:
    side: int
    at: int
    position: int
    close: int
    paired: bool = False


@dataclass
class _Partition:
    """Kept records by key, the left ones by closing time, and stream time."""

    kept: dict[tuple[Any, ...], list[_Kept]] = field(default_factory=lambda: defaultdict(list))
    closing: list[tuple[int, int, int, _Kept]] = field(default_factory=list)
    time: int = -(2**62)


def left_join(left: pd.DataFrame, right: pd.DataFrame, *, before: int, after: int, grace: int) -> LeftJoin:
    """Join two streams.

    Parameters
    ----------
    left, right
        Records in order of arrival with the columns `FLIGHT_KEY`, ``_timestamp``, ``partition`` and ``epoch``; the last
        two as the changelogs have them.
    before, after, grace
        The window in ms.
    """
    bound = {LEFT: after, RIGHT: before}
    waiting = [_queues(left), _queues(right)]
    partitions: dict[int, _Partition] = defaultdict(_Partition)
    rows: list[tuple[int, int | None, int, int, int]] = []
    late: list[tuple[str, int]] = []
    lag = {"left": 0, "right": 0}
    for epoch, number in sorted(set(waiting[LEFT]) | set(waiting[RIGHT])):
        state = partitions[number]
        queues = [side.get((epoch, number), []) for side in waiting]
        for side, at, position, key in _by_head(*queues):
            seen, state.time = state.time, max(state.time, at)
            name = ("left", "right")[side]
            lag[name] = max(lag[name], seen - at)
            record = _Kept(side, at, position, at + bound[side] + grace)
            if seen >= record.close:
                late.append((name, position))
            else:
                for other in state.kept[key]:
                    one, two = (record, other) if side == LEFT else (other, record)
                    inside = one.at - before <= two.at <= one.at + after
                    if other.side != side and inside and seen < other.close:
                        record.paired = other.paired = True
                        time = max(one.at, two.at)
                        rows.append((one.position, two.position, time, number, epoch))
                state.kept[key].append(record)
                if side == LEFT:
                    heapq.heappush(state.closing, (record.close, at, position, record))
            while state.closing and state.closing[0][0] <= state.time:
                closed = heapq.heappop(state.closing)[3]
                if not closed.paired:
                    rows.append((closed.position, None, closed.at, number, epoch))
    columns = ["left", "right", "_timestamp", "partition", "epoch"]
    found = pd.DataFrame(rows, columns=columns).astype({"right": "Int64"})
    return LeftJoin(found, pd.DataFrame(late, columns=["side", "position"]), lag)


def trips(
    departures: pd.DataFrame, arrivals: pd.DataFrame, *, before: int, after: int, grace: int
) -> tuple[pd.DataFrame, LeftJoin]:
    """Rows of ``trips`` (key, value, ``_timestamp``, ``partition``, ``epoch``), and how they came about."""
    join = left_join(departures, arrivals, before=before, after=after, grace=grace)
    value = ["destination", "tail_number", "departed", "departure_delay"]
    found = departures.reset_index(drop=True).loc[join.rows["left"], FLIGHT_KEY + value]
    landed = arrivals.reset_index(drop=True).reindex(join.rows["right"].astype("Float64").fillna(-1))
    rows = found.reset_index(drop=True).assign(
        arrived=landed["arrived"].array,
        arrival_delay=landed["arrival_delay"].array,
        # A departure that never arrived was diverted, too.
        diverted=landed["diverted"].astype("boolean").fillna(True).array,
    )
    order = ["destination", "tail_number", "departed", "arrived", "departure_delay"]
    rows = rows[[*FLIGHT_KEY, *order, "arrival_delay", "diverted"]]
    return rows.join(join.rows[["_timestamp", "partition", "epoch"]]), join


_Waiting = tuple[int, int, int, tuple[Any, ...]]


def _queues(records: pd.DataFrame) -> dict[tuple[int, int], list[_Waiting]]:
    """Per epoch and partition: timestamp, position and key of each record, in order of arrival."""
    queues: dict[tuple[int, int], list[_Waiting]] = defaultdict(list)
    keys = zip(*(records[c].tolist() for c in FLIGHT_KEY), strict=True)
    columns = (records[c].astype("int64").tolist() for c in ("epoch", "partition", "_timestamp"))
    for position, (key, epoch, number, at) in enumerate(zip(keys, *columns, strict=True)):
        queues[epoch, number].append((0, at, position, key))
    return queues


def _by_head(left: list[_Waiting], right: list[_Waiting]):
    """Kafka Streams' choice: the input whose first waiting record is earlier; the left one on a tie."""
    i = j = 0
    while i < len(left) or j < len(right):
        if j == len(right) or (i < len(left) and left[i][1] <= right[j][1]):
            yield (LEFT, *left[i][1:])
            i += 1
        else:
            yield (RIGHT, *right[j][1:])
            j += 1
