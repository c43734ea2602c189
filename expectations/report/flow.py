"""What went through a node, how long it took and how far behind it was, epoch by epoch, from the epoch log's lines.

A number that was not recorded is None and is shown as such, never as 0: a table join's rows do not show whether they
have a partner, and lines of an older version of the code lack some fields. Of a line

    {"epoch": 2, "rows_in": {"left": 5, "right": 3}, "rows": 7, "tombstones": 1, "one_sided": 2, "late": 1, …}

5 and 3 records came in; 4 rows are matched, 2 one-sided, 1 is a retraction; 1 record was dropped as late. What is left
unread is what the inputs had committed by then and the epoch did not read.
Held by ``tests/expectations/test_report_flow.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PHASES = ("plan", "compute", "audit", "commit", "fold", "checks")
"""Where an epoch's time goes; ``checks`` are those on what is committed."""
Line = Mapping[str, Any]


class Flow(NamedTuple):
    """What one epoch took in, by side (of a source: ``files``), gave, of ``rows`` in all, and dropped."""

    epoch: int
    taken: Mapping[str, int]
    rows: int
    given: Mapping[str, int]
    dropped: Mapping[str, int]


class Latency(NamedTuple):
    """Seconds of one epoch by phase, and how far behind it was when it was committed.

    Milliseconds to the commit: ``behind`` from the newest event that the epoch took in, ``waited`` from the delivery of
    a source's newest file. ``unread``: records of the inputs that were committed by then and not read.
    """

    epoch: int
    seconds: Mapping[str, float | None]
    committed_at: int | None
    newest_event: int | None
    behind: int | None
    waited: int | None
    unread: int | None


def flow(measured: Sequence[Line]) -> list[Flow]:
    """One value per line."""
    found = []
    for line in measured:
        rows, gone, alone = line["rows"], line["tombstones"], line.get("one_sided")
        given = {"rows": rows - gone} if alone is None else {"matched": rows - gone - alone, "one-sided": alone}
        dropped = {"late": line.get("late"), "dead": line.get("dead_letter")}
        dropped = {kind: n for kind, n in dropped.items() if n is not None}
        taken = line["rows_in"] or {"files": line["files"]}
        found.append(Flow(line["epoch"], taken, rows, given | {"retracted": gone}, dropped))
    return found


def latency(
    measured: Sequence[Line], checked: Mapping[int, float], inputs: Mapping[str, Sequence[Line]]
) -> list[Latency]:
    """One value per line; ``checked``: epoch to seconds of checks after its commit, ``inputs``: side to its lines."""
    found = []
    for line in measured:
        epoch, at, newest = line["epoch"], line.get("committed_at"), line.get("newest_event")
        seconds = {phase: line["seconds"].get(phase) for phase in PHASES} | {"checks": checked.get(epoch)}
        behind, waited = _between(newest, at), _between(line.get("delivered_at"), at)
        found.append(Latency(epoch, seconds, at, newest, behind, waited, _count_unread(line, inputs)))
    return found


def _between(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else end - start


def _count_unread(line: Line, inputs: Mapping[str, Sequence[Line]]) -> int | None:
    consumed, at = line.get("consumed"), line.get("committed_at")
    if not consumed or at is None:
        return None
    waiting = 0
    for side, (incarnation, records) in consumed.items():
        there = [
            sum(end + 1 for end in other["ends"].values())
            for other in inputs.get(side, ())
            if other.get("incarnation") == incarnation and (other.get("committed_at") or at + 1) <= at
        ]
        # A run that was killed after its commit left no line: the number is unknown.
        if not there or max(there) < records:
            return None
        waiting += max(there) - records
    return waiting
