"""stream ⋈ table, also a global one: a row is its stream record, with what the table had of the key that it looks up.

left  k A     row (A, null): 'right' had no k yet, it came later      right-came-later
right k a     nothing: the table never triggers
left  k B     row (B, a); of a versioned table what it had at the time of B

With a grace the record waits, and another record releases it: then the trigger is not the record itself. Held by
``tests/joins/why/test_lookups.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rivermeet.joins.why.evidence import Found, Key, Reason, Unknown
from rivermeet.joins.why.replay import Met, Replay
from rivermeet.joins.why.words import explain_by_rule, explain_nothing, report_no_record, report_unknown
from rivermeet.pipelines import StreamGlobalJoin, StreamTableJoin

LookUp = StreamTableJoin | StreamGlobalJoin


def reads(join: LookUp, key: Key, trigger: Found | None) -> Mapping[str, Key]:
    """The stream's key; the table's is what its records look up."""
    return {"left": key}


def of_row(join: LookUp, met: Met, replayed: Replay) -> list[Reason]:
    """What released the record, and why it found nothing."""
    waited = met.left is not None and replayed.place(met.left) != replayed.place(met.trigger)
    released = Reason("waiting", "it waited for the grace of the table, and the trigger released it")
    says = [released] if waited else []
    return says if met.left is None or met.right is not None else [*says, _not_found(join, met.left, replayed, met.at)]


def _not_found(join: LookUp, left: Found, replayed: Replay, at: float) -> Reason:
    key = replayed.pointer(left)
    if isinstance(key, Unknown):
        return report_unknown(key)
    if key is None:
        return Reason("no-look-up-key", f"its key to look up in '{join.right.name}' is null", (left,))
    return explain_nothing(replayed, "right", key, at)


def of_absence(join: LookUp, key: Key, replayed: Replay) -> list[Reason]:
    """Why no record of the stream's key gave a row, each with its reason."""
    lefts = replayed.of_key("left", key)
    return [_without_row(join, one, replayed) for one in lefts] or [report_no_record(replayed, "left", key)]


def _without_row(join: LookUp, left: Found, replayed: Replay) -> Reason:
    note = replayed.rule(left)
    if note is None:
        return explain_by_rule(replayed, left)
    if note.rule == "null-value":
        says = f"its record in '{join.left.name}' has no value, and looks up nothing"
        return Reason(note.rule, says, (left,))
    if note.rule == "waiting":
        return Reason(note.rule, "it waits for the grace of the table: no later record has released it", (left,))
    if note.rule in ("no-right", "no-look-up-key"):
        found = _not_found(join, left, replayed, replayed.positions[replayed.place(left)])
        return replace(found, records=(left, *found.records))
    return explain_by_rule(replayed, left)
