"""table ⋈ table on a foreign key: a row is its left record, with the right one that it pointed to then.

    left  k f|1     no row: 'right' has no f                          no-right
    right f x       row (f|1, x), triggered by the right record
    left  k g|1     tombstone: its foreign key moved from f to g      no-right
    left  k |1      still no row: its foreign key is null             no-foreign-key

Held by ``tests/joins/why/test_tables.py``, where the reference joins have the same tables at each row.
"""

from __future__ import annotations

from rivermeet.joins.why.evidence import (
    Evidence,
    Found,
    Key,
    Made,
    Reason,
    ResultRow,
    Unknown,
    before,
    is_there,
    named,
    standing,
    unread,
)
from rivermeet.joins.why.tables import history, nothing_there, pointers, seen_at, unknown
from rivermeet.pipelines import ForeignKeyJoin


def made_of(join: ForeignKeyJoin, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
    """The left record of the row's key, and the right one that it pointed to, as the trigger found them."""
    at = seen_at(join, trigger)
    records = evidence.records("left", row.key)
    left = standing(records, at, history(join.left))
    if left is None or left.value is None:
        return Made({"left": left, "right": None}, (f"its left record was deleted from '{join.left.name}'",))
    key = evidence.mapped(join.foreign_key, left)
    if isinstance(key, Unknown):
        right = trigger if trigger.side == "right" else None
        return Made({"left": left, "right": right}, () if right else (unknown("right", key).says,))
    says: list[str] = []
    if trigger.side == "left" and trigger.order is not None:
        says += _moved(join, before(records, trigger.order, history(join.left)), key, evidence)
    if key is None:
        return Made({"left": left, "right": None}, (*says, "its foreign key is null"))
    rights = evidence.records("right", key)
    right = standing(rights, at, history(join.right))
    if is_there(right):
        return Made({"left": left, "right": right}, tuple(says))
    says.append(f"it points to {named(key)}: {nothing_there(join.right, 'right', key, rights, at).says}")
    return Made({"left": left, "right": right}, tuple(says), (("right", key),))


def _moved(join: ForeignKeyJoin, old: Found | None, key: Key | None, evidence: Evidence) -> list[str]:
    if old is None or old.value is None:
        return []
    was = evidence.mapped(join.foreign_key, old)
    if isinstance(was, Unknown) or was == key:
        return []
    return [f"its foreign key moved from {named(was) if was else 'null'} to {named(key) if key else 'null'}"]


def missing(join: ForeignKeyJoin, key: Key, evidence: Evidence) -> list[Reason]:
    """Why no row of the key is live now."""
    lefts = evidence.records("left", key)
    left = standing(lefts, (float("inf"),), history(join.left))
    if left is None or left.value is None:
        return [nothing_there(join.left, "left", key, lefts, None)]
    found: list[Reason] = []
    pointed = evidence.mapped(join.foreign_key, left)
    if isinstance(pointed, Unknown):
        found.append(unknown("right", pointed))
    elif pointed is None:
        found.append(Reason("no-foreign-key", f"the foreign key of its record in '{join.left.name}' is null", (left,)))
    else:
        rights = evidence.records("right", pointed)
        why = nothing_there(join.right, "right", pointed, rights, None)
        says = f"its foreign key points to {named(pointed)}: {why.says}"
        found.append(Reason(why.code, says, (left, *why.records), why.asked))
    path = pointers(evidence, dict(join.foreign_key), [one for one in lefts if one.order is not None])
    if len(path) > 1:
        found.append(Reason("pointed", f"its foreign key pointed to {' → '.join(path)}"))
    if waiting := unread(lefts):
        found.append(Reason("left-not-read", f"newer records of '{join.left.name}' were not joined yet", waiting))
    return found
