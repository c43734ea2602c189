"""table ⋈ table on the key: a row is what both sides had under the key when one of them changed.

    left  k A     inner: no row, 'right' has no record of k      no-right
    right k a     row (A, a)
    left  k NULL  tombstone: its left record was deleted         left-deleted

Held by ``tests/joins/why/test_tables.py``.
"""

from __future__ import annotations

import math

from rivermeet.joins.why.evidence import (
    Evidence,
    Found,
    Key,
    Made,
    Reason,
    ResultRow,
    is_there,
    named,
    standing,
    unread,
)
from rivermeet.joins.why.tables import history, nothing_there, seen_at
from rivermeet.pipelines import Node, TableTableJoin


def made_of(join: TableTableJoin, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
    """Both records of the key, as the trigger found them."""
    assert row.key is not None
    at = seen_at(join, trigger)
    parts: dict[str, Found | None] = {}
    says: list[str] = []
    asked: list[tuple[str, Key]] = []
    for side, node in _sides(join).items():
        key = _key_of(join, side, row.key)
        records = evidence.records(side, key)
        parts[side] = standing(records, at, history(node))
        if not is_there(parts[side]):
            says.append(nothing_there(node, side, key, records, at).says)
            asked.append((side, key))
    return Made(parts, tuple(says), tuple(asked))


def missing(join: TableTableJoin, key: Key, evidence: Evidence) -> list[Reason]:
    """Why no row of the key is live now: sides that it needs and that have no row."""
    found: list[Reason] = []
    for side, node in _sides(join).items():
        own = _key_of(join, side, key)
        records = evidence.records(side, own)
        needed = join.how != "left" or side == "left"
        if needed and not is_there(standing(records, (math.inf,), history(node))):
            found.append(nothing_there(node, side, own, records, None))
        elif waiting := unread(records):
            says = f"newer records of {named(own)} in '{node.name}' were not joined yet: run the pipeline"
            found.append(Reason(f"{side}-not-read", says, waiting))
    return found


def _sides(join: TableTableJoin) -> dict[str, Node]:
    return {"left": join.left, "right": join.right}


def _key_of(join: TableTableJoin, side: str, key: Key) -> Key:
    """The row's key as a side has it: under its own names, and in its own window."""
    if side == "left":
        return key
    shift = join.window_map or 0
    moved = {c: v + shift if shift and c in ("window_start", "window_end") else v for c, v in key.items()}
    return dict(zip(join.right.key, moved.values(), strict=True))
