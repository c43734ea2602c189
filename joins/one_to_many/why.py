"""One-to-many: a row is one left record and one right record that refers to it, under both keys.

    left  a0 A      no row: no right record refers to a0
    right b0 {a0}   row (a0, b0)
    right b0 {a1}   tombstone of (a0, b0): its reference moved from a0 to a1
    left  a0 NULL   nothing more of (a0, b0)

Held by ``tests/joins/why/test_tables.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from rivermeet.joins.why.evidence import Found, Key, Reason, Unknown, is_there, show_key
from rivermeet.joins.why.replay import Met, Replay
from rivermeet.joins.why.words import explain_nothing, report_unknown
from rivermeet.pipelines import OneToManyJoin


def reads(join: OneToManyJoin, key: Key, trigger: Found | None) -> Mapping[str, Key]:
    """The left and the right key within a row's key."""
    values, count = list(key.values()), len(join.left.key)
    parts = {"left": (join.left, values[:count]), "right": (join.right, values[count:])}
    return {side: dict(zip(node.key, own, strict=True)) for side, (node, own) in parts.items()}


def of_row(join: OneToManyJoin, met: Met, replayed: Replay) -> list[Reason]:
    """Which record was deleted, or where the reference leads now."""
    assert met.key is not None
    if not met.is_end:
        return []
    keys = reads(join, met.key, None)
    if met.rule == "no-reference" and met.right is not None:
        return [_elsewhere(met.right, keys, replayed)]
    return [explain_nothing(replayed, side, key, met.at) for side, key in keys.items() if not is_there(met.parts[side])]


def of_absence(join: OneToManyJoin, key: Key, replayed: Replay) -> list[Reason]:
    """Why no row of the key is live now."""
    keys = reads(join, key, None)
    found: list[Reason] = []
    right = replayed.find_standing("right", keys["right"])
    if right is None or right.value is None:
        found.append(explain_nothing(replayed, "right", keys["right"]))
    elif replayed.pointer(right) != keys["left"]:
        found.append(_elsewhere(right, keys, replayed))
    if not is_there(replayed.find_standing("left", keys["left"])):
        found.append(explain_nothing(replayed, "left", keys["left"]))
    return found


def _elsewhere(right: Found, keys: Mapping[str, Key], replayed: Replay) -> Reason:
    refers = replayed.pointer(right)
    if isinstance(refers, Unknown):
        return report_unknown(refers)
    found = show_key(refers) if refers else "nothing"
    says = f"{show_key(keys['right'])} refers to {found}, not to {show_key(keys['left'])}"
    return Reason("no-reference", says, (right,))
