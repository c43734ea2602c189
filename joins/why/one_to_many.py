"""One-to-many: a row is one left record and one right record that refers to it, under both keys.

    left  a0 A      no row: nobody refers to a0
    right b0 {a0}   row (a0, b0)
    right b0 {a1}   tombstone of (a0, b0): its reference moved from a0 to a1
    left  a0 NULL   nothing more of (a0, b0)

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
    Unknown,
    is_there,
    named,
    standing,
)
from rivermeet.joins.why.tables import history, nothing_there, seen_at, unknown
from rivermeet.pipelines import OneToManyJoin


def made_of(join: OneToManyJoin, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
    """Both records of the row's two keys, as the trigger found them."""
    assert row.key is not None
    at = seen_at(join, trigger)
    one, many = _keys(join, row.key)
    left = standing(evidence.records("left", one), at, history(join.left))
    right = standing(evidence.records("right", many), at, history(join.right))
    says: list[str] = []
    if not is_there(right):
        says.append(f"its right record was deleted from '{join.right.name}'")
    elif right is not None:
        refers = evidence.mapped(join.foreign_key, right)
        if not isinstance(refers, Unknown) and refers != one:
            says.append(f"its reference moved from {named(one)} to {named(refers) if refers else 'null'}")
            right, left = None if trigger.side == "left" else right, None
    if right is not None and left is not None and left.value is None:
        says.append(f"its left record was deleted from '{join.left.name}'")
    return Made({"left": left, "right": right}, tuple(says))


def missing(join: OneToManyJoin, key: Key, evidence: Evidence) -> list[Reason]:
    """Why no row of the key is live now."""
    one, many = _keys(join, key)
    found: list[Reason] = []
    rights, lefts = evidence.records("right", many), evidence.records("left", one)
    right = standing(rights, (math.inf,), history(join.right))
    if right is None or right.value is None:
        found.append(nothing_there(join.right, "right", many, rights, None))
    else:
        refers = evidence.mapped(join.foreign_key, right)
        if isinstance(refers, Unknown):
            found.append(unknown("left", refers))
        elif refers != one:
            to = named(refers) if refers else "nothing"
            found.append(Reason("no-reference", f"{named(many)} refers to {to}, not to {named(one)}", (right,)))
    left = standing(lefts, (math.inf,), history(join.left))
    if not is_there(left):
        found.append(nothing_there(join.left, "left", one, lefts, None))
    return found


def _keys(join: OneToManyJoin, key: Key) -> tuple[Key, Key]:
    """The left and the right key that a row's is made of."""
    values = list(key.values())
    count = len(join.left.key)
    return dict(zip(join.left.key, values[:count], strict=True)), dict(zip(join.right.key, values[count:], strict=True))
