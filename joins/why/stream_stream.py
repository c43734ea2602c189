"""stream ⋈ stream: a row names both of its records, and one without a partner says what its key has on the other side.

Window 10/10, grace 5, left join:

    left  k A @0     right k a @8      row (A, a): within ten of each other
    left  k B @20    right k b @31     (B, null): the nearest record is 11 ms later, 1 ms beyond the window    outside
    right k c @15    at stream time 36, is dropped: it came 6 ms after its window closed                       late
    left  x C @60                      no row yet: it waits until stream time is 75                           waiting

Held by ``tests/joins/why/test_stream_stream.py``, which compares with what the reference join has dropped and what
waits in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rivermeet.joins.why.evidence import (
    Evidence,
    Found,
    Key,
    Late,
    Made,
    Reason,
    ResultRow,
    is_there,
    moment,
    named,
    span,
)
from rivermeet.pipelines import Node, StreamStreamJoin

OUTER = {"inner": (), "left": ("left",), "outer": ("left", "right")}


def made_of(join: StreamStreamJoin, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
    """The records at the row's offsets; of a row with one of them, why it has no partner."""
    offsets = {"left": row.left_offset, "right": row.right_offset}
    if set(offsets.values()) == {None}:
        return Made({trigger.side: trigger}, ("the row names no records: only its trigger is known",))
    # Where a key is null the record may lie in any partition: its row lies in the same.
    parts = {side: None if at is None else evidence.record(side, row.partition, at) for side, at in offsets.items()}
    alone = next((one for side, one in parts.items() if one is not None and offsets[_other(side)] is None), None)
    if alone is None:
        return Made(parts)
    says = [_left_alone(join, alone, trigger)]
    says += [reason.says for reason in partners(join, alone, evidence)]
    return Made(parts, tuple(says), () if alone.key is None else ((_other(alone.side), alone.key),))


def _left_alone(join: StreamStreamJoin, alone: Found, trigger: Found) -> str:
    if alone.key is None:
        return "it has no key, so it can have no partner"
    if (alone.side, alone.partition, alone.offset) == (trigger.side, trigger.partition, trigger.offset):
        return "it had no partner when it came"
    return f"its window closed at {moment(close(join, alone))}, and the trigger moved stream time there"


def missing(join: StreamStreamJoin, key: Key, evidence: Evidence) -> list[Reason]:
    """Why no record of the key is in a row."""
    sides = {side: evidence.records(side, key) for side in ("left", "right")}
    found = _dropped(join, evidence.late(key))
    dropped = {(late.side, late.partition, late.offset) for late in evidence.late(key)}
    for side, records in sides.items():
        if not records:
            says = f"'{_node(join, side).name}' has no record of {named(key)}"
            found.append(Reason(f"no-{side}", says, asked=(side, key)))
        for one in records:
            if (side, one.partition, one.offset) not in dropped:
                found += _alone(join, one, evidence)
    return found


def _alone(join: StreamStreamJoin, one: Found, evidence: Evidence) -> list[Reason]:
    """Why a record of a key without rows is in none."""
    name = _node(join, one.side).name
    if one.order is None:
        return [Reason(f"{one.side}-not-read", f"it is in '{name}', and was not joined yet: run the pipeline", (one,))]
    if one.value is None:
        return [Reason("null-value", f"its record in '{name}' has no value, and joins nothing", (one,))]
    found = partners(join, one, evidence)
    reached = evidence.stream_time(one.partition)
    if one.side in OUTER[join.how] and (reached is None or reached < close(join, one)):
        now = "" if reached is None else f"; that is {moment(reached)} now"
        says = f"its record in '{name}' waits for a partner until stream time is {moment(close(join, one))}{now}"
        found.append(Reason("waiting", says, (one,)))
    return found


def partners(join: StreamStreamJoin, one: Found, evidence: Evidence) -> list[Reason]:
    """Why no record of the other side is the partner of one that has none: the nearest of its key."""
    if one.key is None:
        return []
    side = _other(one.side)
    name, late = _node(join, side).name, evidence.late(one.key)
    dropped = {(each.side, each.partition, each.offset) for each in late}
    others = [o for o in evidence.records(side, one.key) if is_there(o)]
    within = [o for o in others if beyond(join, one, o) == 0]
    found = _dropped(join, [each for each in late if any(_is(each, o) for o in within)])
    open_ones = [o for o in within if (o.side, o.partition, o.offset) not in dropped]
    if open_ones:
        unread = [o for o in open_ones if o.order is None]
        if unread:
            says = f"a record within its window is in '{name}', and was not joined yet: run the pipeline"
            found.append(Reason(f"{side}-not-read", says, (unread[0],)))
        if len(unread) < len(open_ones):
            met = next(o for o in open_ones if o.order is not None)
            says = f"a record of '{name}' lies within its window, and met it when one of the two windows was closed"
            found.append(Reason("closed", says, (met,)))
    if within:
        return found
    if not others:
        return [Reason(f"no-{side}", f"'{name}' has no record of {named(one.key)}", (one,))]
    return [_outside(join, one, others)]


def _outside(join: StreamStreamJoin, one: Found, others: Sequence[Found]) -> Reason:
    nearest = min(others, key=lambda o: (beyond(join, one, o), o.offset))
    apart = nearest.timestamp - one.timestamp
    says = (
        f"the nearest record of '{_node(join, nearest.side).name}' is {span(apart)} "
        f"{'later' if apart >= 0 else 'earlier'}, {span(beyond(join, one, nearest))} beyond the window"
    )
    return Reason("outside", says, (one, nearest))


def _dropped(join: StreamStreamJoin, late: Sequence[Late]) -> list[Reason]:
    found: list[Reason] = []
    for one in late:
        name = _node(join, one.side).name
        if one.close is None or one.stream_time is None:
            found.append(Reason("late", f"a record of '{name}' is in the late table: {one.reason}"))
            continue
        by = span(one.stream_time - one.close)
        says = f"a record of '{name}' at {moment(one.timestamp)} came {by} after its window had closed (late table)"
        found.append(Reason("late", says))
    return found


def _is(late: Late, record: Found) -> bool:
    return (late.side, late.partition, late.offset) == (record.side, record.partition, record.offset)


def close(join: StreamStreamJoin, one: Found) -> int:
    """Stream time (ms) at which a record's window is closed."""
    bound = join.window.after if one.side == "left" else join.window.before
    return one.timestamp + max(bound, 0) + join.window.grace


def beyond(join: StreamStreamJoin, one: Found, other: Found) -> int:
    """How far (ms) two records are beyond the window; 0 where they lie in it."""
    left, right = (one, other) if one.side == "left" else (other, one)
    apart = right.timestamp - left.timestamp
    return max(apart - join.window.after, -join.window.before - apart, 0)


def _other(side: str) -> str:
    return "right" if side == "left" else "left"


def _node(join: StreamStreamJoin, side: str) -> Node:
    return join.left if side == "left" else join.right
