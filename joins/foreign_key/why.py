"""table ⋈ table on a foreign key: a row is its left record, with the right one that it pointed to then.

    left  k f|1     no row: 'right' has no f                          no-right
    right f x       row (f|1, x), triggered by the right record
    left  k g|1     tombstone: its foreign key moved from f to g      no-right
    left  k |1      still no row: its foreign key is null             no-foreign-key

Held by ``tests/joins/why/test_tables.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import groupby

from rivermeet.joins.reference.records import RULES
from rivermeet.joins.why.evidence import Found, Key, Reason, Unknown, is_there, show_key
from rivermeet.joins.why.replay import Met, Pointer, Replay
from rivermeet.joins.why.words import explain_nothing, find_newer, report_unknown
from rivermeet.pipelines import ForeignKeyJoin


def reads(join: ForeignKeyJoin, key: Key, trigger: Found | None) -> Mapping[str, Key]:
    """The left key; the right ones are those that its records point to."""
    return {"left": key}


def of_row(join: ForeignKeyJoin, met: Met, replayed: Replay) -> list[Reason]:
    """What it pointed to before, and why it found nothing there."""
    left = met.left
    if left is None or left.value is None:
        return [] if met.key is None else [explain_nothing(replayed, "left", met.key, met.at)]
    found: list[Reason] = []
    if met.trigger.side == "left" and met.key is not None:
        old = replayed.find_standing("left", met.key, replayed.positions[replayed.place(left)] - 1)
        was, now = (None if one is None or one.value is None else _pointer(replayed, one) for one in (old, left))
        if was is not None and was != now:
            found.append(Reason("moved", f"its foreign key moved from {was} to {now}"))
    return found if is_there(met.right) else [*found, *_not_found(left, replayed, met.at)]


def _not_found(left: Found, replayed: Replay, at: float) -> list[Reason]:
    key = replayed.pointer(left)
    if isinstance(key, Unknown):
        return [report_unknown(key)]
    if key is None:
        return [Reason("no-foreign-key", "its foreign key is null", (left,))]
    if is_there(replayed.find_standing("right", key, at)):
        return []
    why = explain_nothing(replayed, "right", key, at)
    return [Reason(why.code, f"its foreign key points to {show_key(key)}: {why.says}", (left, *why.records), why.asked)]


def _pointer(replayed: Replay, left: Found) -> str:
    key: Pointer = replayed.pointer(left)
    return "?" if isinstance(key, Unknown) else "null" if key is None else show_key(key)


def of_absence(join: ForeignKeyJoin, key: Key, replayed: Replay) -> list[Reason]:
    """Why no row of the key is live now."""
    left = replayed.find_standing("left", key)
    if left is None or left.value is None:
        return [explain_nothing(replayed, "left", key)]
    found, note = _not_found(left, replayed, math.inf), replayed.rule(left)
    if not found and note is not None:
        # Of profile "0.10.2" alone: both records are there, and the change was dropped, or its subscription is another.
        found.append(Reason(note.rule, f"its record in '{join.left.name}': {RULES[note.rule]}", (left,)))
    consumed = [one for one in replayed.of_key("left", key) if one.order is not None]
    path = [
        text for text, _ in groupby("deleted" if one.value is None else _pointer(replayed, one) for one in consumed)
    ]
    if len(path) > 1:
        found.append(Reason("pointed", f"its foreign key pointed to {' → '.join(path)}"))
    return found + find_newer(replayed, "left")
