"""table ⋈ table on the key: a row is what both sides had under the key when one of them changed.

    left  k A     inner: no row, 'right' has no record of k      no-right
    right k a     row (A, a)
    left  k NULL  tombstone: its left record was deleted         left-deleted

Held by ``tests/joins/why/test_tables.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from rivermeet.joins.why.evidence import Found, Key, Reason, is_there
from rivermeet.joins.why.replay import Met, Replay
from rivermeet.joins.why.words import explain_nothing, find_newer
from rivermeet.pipelines import TableTableJoin


def reads(join: TableTableJoin, key: Key, trigger: Found | None) -> Mapping[str, Key]:
    """The row's key as each side has it: under its own names, and in its own window."""
    shift = join.window_map or 0
    moved = [v + shift if shift and c in ("window_start", "window_end") else v for c, v in key.items()]
    return {"left": key, "right": dict(zip(join.right.key, moved, strict=True))}


def of_row(join: TableTableJoin, met: Met, replayed: Replay) -> list[Reason]:
    """Why a side was empty."""
    assert met.key is not None
    return [
        explain_nothing(replayed, side, key, met.at)
        for side, key in reads(join, met.key, None).items()
        if not is_there(met.parts[side])
    ]


def of_absence(join: TableTableJoin, key: Key, replayed: Replay) -> list[Reason]:
    """Which of the required sides have no row now."""
    found: list[Reason] = []
    for side, own in reads(join, key, None).items():
        needed = join.how != "left" or side == "left"
        if needed and not is_there(replayed.find_standing(side, own)):
            found.append(explain_nothing(replayed, side, own))
        else:
            found += find_newer(replayed, side)
    return found
