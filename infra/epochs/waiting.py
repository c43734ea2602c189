"""Waiting for a slower input: determines which new records must be held back, so that none is overtaken.

A record may be processed when no other queue (input and partition) can still send one that comes first. With M the
running maximum of timestamps in the record's own queue, and T(q) the highest timestamp that queue q has sent so far,
that is when ``M <= T(q)`` for every other queue q, or ``M < T(q)`` where q goes first on a tie (the left input, then
the lower partition). Records at 10 and 12 on the left, 11 on the right:

    left 10     is processed: the right has reached 11
    right 11    is processed: the left has reached 12
    left 12     waits: the right may still send an 11

The processed records are a prefix of the order over all records that are ever sent: a later record has a running
maximum of at least ``T(q)``, and comes after them. So with unlimited waiting, the result does not depend on how inputs
are cut into commits and epochs.

After ``max_task_idle_ms`` of wall time since the first held record arrived, all records are processed; in a join whose
partitions are independent, all records of that partition. Source: KIP-353, KIP-695. Held by
``tests/joins/epochs/test_waiting.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.delta.changelog_files import any_of_sql
from rivermeet.infra.delta.io import arrivals, read

Queue = tuple[str, int]
"""Side and partition, in the order of ties."""
NOTHING = -(2**63)
"""The time of a queue without records."""


@dataclass(frozen=True)
class Queues:
    """The records that the inputs of one operation have sent, by side.

    ``ends`` and ``times`` are of each partition the last offset and the highest timestamp (ms). ``alone`` says whether
    a partition of one side only ever meets the same partition of the other.
    """

    changelogs: Mapping[str, str]
    ends: Mapping[str, Offsets]
    times: Mapping[str, Offsets]
    partitions: Mapping[str, int]
    alone: bool

    def others(self, queue: Queue) -> Iterator[Queue]:
        """Queues whose records may come before those of ``queue``."""
        side, partition = queue
        for other, count in self.partitions.items():
            for p in range(count):
                if (other, p) != queue and (p == partition or not self.alone) and (other != side or not self.alone):
                    yield other, p

    def bound(self, queue: Queue) -> int | None:
        """Highest running maximum that may be processed; None without a bound."""
        limits = [self.times[side].get(p, NOTHING) - (0 if queue < (side, p) else 1) for side, p in self.others(queue)]
        return min(limits, default=None)


def hold_back(
    queues: Queues,
    after: Mapping[str, Mapping[int, int]],
    idle_ms: int | None,
    session: Callable[[], SparkSession],
    now_ms: float,
) -> Mapping[str, Offsets]:
    """Side to partition to the last offset that may go now."""
    upto = {side: dict(ends) for side, ends in queues.ends.items()}
    waiting: list[Queue] = []
    over: set[int | None] = set()
    for side, ends in queues.ends.items():
        bounds = {p: bound for p in ends if (bound := queues.bound((side, p))) is not None}
        late = {p: b for p, b in bounds.items() if queues.times[side].get(p, NOTHING) > b}
        for p, first in _first_above(session, queues.changelogs[side], late, after[side]).items():
            waiting.append((side, p))
            upto[side][p] = first - 1
    if idle_ms is not None and waiting:
        commits = {side: arrivals(queues.changelogs[side]) for side in {side for side, _ in waiting}}
        for side, p in waiting:
            arrived = min(at for at, ends in commits[side] if ends.get(p, -1) > upto[side][p])
            if now_ms - arrived >= idle_ms:
                over.add(p if queues.alone else None)
        for side, ends in queues.ends.items():
            upto[side] |= {p: end for p, end in ends.items() if p in over or None in over}
    return {side: {p: end for p, end in ends.items() if end >= 0} for side, ends in upto.items()}


def _first_above(
    session: Callable[[], SparkSession], changelog: str, bounds: Mapping[int, int], after: Mapping[int, int]
) -> Offsets:
    if not bounds:
        return {}
    slots = [
        f"(partition = {p} AND offset > {after.get(p, -1)} AND timestamp > {b}L)"
        if b > NOTHING
        else f"(partition = {p} AND offset > {after.get(p, -1)})"
        for p, b in bounds.items()
    ]
    found = read(session(), changelog).where(any_of_sql(slots))
    return dict(found.groupBy("partition").agg(F.min("offset")).collect())  # pyright: ignore[reportReturnType]
