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
from dataclasses import dataclass
from typing import Any

PHASES = ("plan", "compute", "audit", "commit", "fold", "checks")
"""Where an epoch's time goes; ``checks`` are those on what is committed."""
Line = Mapping[str, Any]


@dataclass(frozen=True)
class Flow:
    """What one epoch took in and gave.

    ``rows_in`` is by side, or ``files`` of a source. ``matched`` is None where `one_sided` is; ``rows`` has all rows,
    of which ``retracted`` are tombstones.
    """

    epoch: int
    rows_in: Mapping[str, int]
    rows: int
    matched: int | None
    one_sided: int | None
    retracted: int
    late: int | None
    dead: int | None


@dataclass(frozen=True)
class Latency:
    """Seconds by phase of one epoch, and how far behind it was when it was committed.

    Attributes
    ----------
    behind
        Milliseconds from the newest event that the epoch took in to its commit.
    waited
        Milliseconds from the delivery of a source's newest file to the commit.
    unread
        Records of the inputs that were committed by then and not read.
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
    return [_flow(line) for line in measured]


def _flow(line: Line) -> Flow:
    alone, rows, gone = line.get("one_sided"), line["rows"], line["tombstones"]
    return Flow(
        epoch=line["epoch"],
        rows_in=line["rows_in"] or {"files": line["files"]},
        rows=rows,
        matched=None if alone is None else rows - gone - alone,
        one_sided=alone,
        retracted=gone,
        late=line.get("late"),
        dead=line.get("dead_letter"),
    )


def latency(
    measured: Sequence[Line], checked: Mapping[int, float], inputs: Mapping[str, Sequence[Line]]
) -> list[Latency]:
    """One value per line.

    Parameters
    ----------
    checked
        Epoch to seconds of the checks on what it had committed.
    inputs
        Side to the lines of the input that is read there.
    """
    return [
        Latency(
            epoch=line["epoch"],
            seconds={p: line["seconds"].get(p) for p in PHASES} | {"checks": checked.get(line["epoch"])},
            committed_at=line.get("committed_at"),
            newest_event=line.get("newest_event"),
            behind=_between(line.get("newest_event"), line.get("committed_at")),
            waited=_between(line.get("delivered_at"), line.get("committed_at")),
            unread=_unread(line, inputs),
        )
        for line in measured
    ]


def _between(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else end - start


def _unread(line: Line, inputs: Mapping[str, Sequence[Line]]) -> int | None:
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
        # A run that was killed after its commit left no line, and then nobody knows.
        if not there or max(there) < records:
            return None
        waiting += max(there) - records
    return waiting
