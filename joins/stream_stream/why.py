"""stream ⋈ stream: a row names both of its records, and one without a partner says what its key has on the other side.

Window 10/10, grace 5, left join:

    left  k A @0     right k a @8      row (A, a): within ten of each other
    left  k B @20    right k b @31     (B, null): the nearest record is 11 ms later, 1 ms beyond the window    outside
    right k c @15    at stream time 36, is dropped: it came 6 ms after its window closed                       late
    left  x C @60                      no row yet: it waits until stream time is 75                           waiting

Held by ``tests/joins/why/test_stream_stream.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rivermeet.joins.why.evidence import Found, Key, Reason, is_there, moment, show_key, span
from rivermeet.joins.why.replay import Met, Replay
from rivermeet.joins.why.words import find_late, report_no_record, report_unread
from rivermeet.pipelines import StreamStreamJoin


def reads(join: StreamStreamJoin, key: Key, trigger: Found | None) -> Mapping[str, Key]:
    """The key of both sides."""
    return dict.fromkeys(("left",) if join.is_self_join else ("left", "right"), key)


def of_row(join: StreamStreamJoin, met: Met, replayed: Replay) -> list[Reason]:
    """Why the record of a row has no partner."""
    alone = met.left or met.right
    if alone is None or None not in (met.left, met.right):
        return []
    if alone.key is None:
        return [Reason("null-key", "it has no key, so it can have no partner")]
    asked, note = (_other(alone.side), alone.key), replayed.rule(alone)
    if (alone.side, alone.partition, alone.offset) == (met.trigger.side, met.trigger.partition, met.trigger.offset):
        why = Reason("alone", "it had no partner when it came", asked=asked)
    else:
        close = "" if note is None or note.close is None else f" at {moment(note.close)}"
        why = Reason("closed", f"its window closed{close}, and the trigger moved stream time there", asked=asked)
    return [why, *_partners(join, alone, replayed)]


def of_absence(join: StreamStreamJoin, key: Key, replayed: Replay) -> list[Reason]:
    """Why no record of the key is in a row."""
    found: list[Reason] = []
    for side in join.inputs:
        records = replayed.of_key(side, key)
        if not records:
            found.append(report_no_record(replayed, side, key))
        found += find_late(replayed, records)
        for one in records:
            found += _without_row(join, one, replayed)
    return found


def _without_row(join: StreamStreamJoin, one: Found, replayed: Replay) -> list[Reason]:
    """Why a record of a key without rows is in none."""
    name, note = join.inputs[one.side].name, replayed.rule(one)
    if one.order is None:
        return [report_unread(replayed, one)]
    if one.value is None:
        return [Reason("null-value", f"its record in '{name}' has no value, and joins nothing", (one,))]
    if note is not None and note.rule == "late":
        return []
    found = _partners(join, one, replayed)
    if note is not None and note.rule == "waiting" and note.close is not None:
        now = f"; that is {moment(max(replayed.reached.values()))} now"
        says = f"its record in '{name}' waits for a partner until stream time is {moment(note.close)}{now}"
        found.append(Reason("waiting", says, (one,)))
    return found


def _partners(join: StreamStreamJoin, one: Found, replayed: Replay) -> list[Reason]:
    """Why a record has no partner on the other side, shown by the nearest record of its key."""
    assert one.key is not None
    side = _other(one.side)
    name = join.inputs[side].name
    others = [other for other in replayed.of_key(side, one.key) if is_there(other)]
    within = [other for other in others if beyond(join, one, other) == 0]
    if not others:
        return [Reason(f"no-{side}", f"'{name}' has no record of {show_key(one.key)}", (one,))]
    if not within:
        return [_outside(join, one, others)]
    found = find_late(replayed, within)
    waiting = [other for other in within if other.order is None]
    if waiting:
        says = f"a record within its window is in '{name}', and was not joined yet: run the pipeline"
        found.append(Reason(f"{side}-not-read", says, (waiting[0],)))
    met = [other for other in within if other.order is not None and not find_late(replayed, [other])]
    if met:
        says = f"a record of '{name}' lies within its window, and met it when one of the two windows was closed"
        found.append(Reason("closed", says, (met[0],)))
    return found


def _outside(join: StreamStreamJoin, one: Found, others: Sequence[Found]) -> Reason:
    nearest = min(others, key=lambda o: (beyond(join, one, o), o.offset))
    apart = nearest.timestamp - one.timestamp
    says = (
        f"the nearest record of '{join.inputs[_other(one.side)].name}' is {span(apart)} "
        f"{'later' if apart >= 0 else 'earlier'}, {span(beyond(join, one, nearest))} beyond the window"
    )
    return Reason("outside", says, (one, nearest))


def beyond(join: StreamStreamJoin, one: Found, other: Found) -> int:
    """How far (ms) two records are beyond the window; 0 within it."""
    left, right = (one, other) if one.side == "left" else (other, one)
    apart = right.timestamp - left.timestamp
    return max(apart - join.window.after, -join.window.before - apart, 0)


def _other(side: str) -> str:
    return "right" if side == "left" else "left"
