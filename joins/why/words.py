"""Sentences that families share, from the records that were replayed.

planes has no N1 at all        "'planes' has no record of tail_number=N1"
N1 came after the look-up      "'planes' had no tail_number=N1 yet: it came later"
N1 was deleted before          "tail_number=N1 was deleted from 'planes' before"
N1 waits to be read            "tail_number=N1 is in 'planes', and was not joined yet: run the pipeline"
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rivermeet.joins.reference.records import RULES
from rivermeet.joins.why.evidence import Found, Key, Reason, Unknown, is_there, moment, show, show_key, span
from rivermeet.joins.why.replay import Replay
from rivermeet.pipelines import Operation

_COLUMN = re.compile(r"\s*(left|right)\.`?(\w+)`?\s*", re.IGNORECASE)


def explain_nothing(replayed: Replay, side: str, key: Key, at: float = math.inf) -> Reason:
    """Why a side has no row of a key after a position in the replay."""
    name = replayed.operation.inputs[side].name
    records, last = replayed.of_key(side, key), replayed.find_standing(side, key, at)
    if is_there(last):
        return Reason(f"{side}-came-later", f"'{name}' had no {show_key(key)} at the record's own time", (last,))  # type: ignore[arg-type]
    if last is not None:
        gone = f"{show_key(key)} was deleted from '{name}'" + ("" if at == math.inf else " before")
        return Reason(f"{side}-deleted", gone, (last,))
    later = next((one for one in records if one.order is not None and is_there(one)), None)
    if later is not None:
        return Reason(f"{side}-came-later", f"'{name}' had no {show_key(key)} yet: it came later", (later,))
    if waiting := [one for one in records if one.order is None and is_there(one)]:
        says = f"{show_key(key)} is in '{name}', and was not joined yet: run the pipeline"
        return Reason(f"{side}-not-read", says, (waiting[-1],))
    return report_no_record(replayed, side, key)


def report_no_record(replayed: Replay, side: str, key: Key) -> Reason:
    """That a side never had a record of a key."""
    name = replayed.operation.inputs[side].name
    return Reason(f"no-{side}", f"'{name}' has no record of {show_key(key)}", asked=(side, key))


def report_unread(replayed: Replay, one: Found) -> Reason:
    """That a record was not consumed yet."""
    name = replayed.operation.inputs[one.side].name
    return Reason(f"{one.side}-not-read", f"it is in '{name}', and was not joined yet: run the pipeline", (one,))


def find_newer(replayed: Replay, side: str) -> list[Reason]:
    """That a side has records which were not consumed yet, if there are any."""
    waiting = tuple(one for one in replayed.unread if one.side == side)
    name = replayed.operation.inputs[side].name
    says = f"newer records of '{name}' were not joined yet: run the pipeline"
    return [Reason(f"{side}-not-read", says, waiting)] if waiting else []


def find_late(replayed: Replay, records: Sequence[Found]) -> list[Reason]:
    """Which of some records came after their windows had closed, and by how much."""
    found: list[Reason] = []
    for one in records:
        note = replayed.rule(one)
        if note is not None and note.rule == "late" and note.stream_time is not None and note.close is not None:
            by, name = span(note.stream_time - note.close), replayed.operation.inputs[one.side].name
            says = f"a record of '{name}' at {moment(one.timestamp)} came {by} after its window had closed (late table)"
            found.append(Reason("late", says, (one,)))
    return found


def explain_by_rule(replayed: Replay, one: Found) -> Reason:
    """Why a record made no row, in the reference's own words."""
    name, note = replayed.operation.inputs[one.side].name, replayed.rule(one)
    if one.order is None:
        return report_unread(replayed, one)
    if note is None:
        says = "it was joined, and has no row: rivermeet verify compares with a full recompute"
        return Reason("unexplained", says, (one,))
    return Reason(note.rule, f"its record in '{name}': {RULES[note.rule]}", (one,))


def find_disagreement(
    operation: Operation, value: Mapping[str, Any] | None, parts: Mapping[str, Found | None]
) -> str | None:
    """What differs between a live row and the records named for it, of columns that are columns of theirs; or None."""
    if value is None or not operation.joins_sides or not {"left", "right"} <= set(parts):
        return None
    for column, made in operation.select.items():
        match = _COLUMN.fullmatch(made) if isinstance(made, str) else None
        if match is None or column not in value:
            continue
        side, name = match[1].lower(), match[2]
        part = parts[side]
        seen = {} if part is None or part.value is None else {**(part.key or {}), **part.value}
        # The columns of a view may differ from those of the table behind it.
        if seen and name not in seen:
            continue
        theirs = seen.get(name)
        if theirs != value[column] and not (theirs != theirs and value[column] != value[column]):
            own = show(value[column])
            return f"not sure: its {column} is {own}, and that of the {side} record named here {show(theirs)}"
    return None


def report_unknown(asked: Unknown) -> Reason:
    """That the key of an expression is unknown here."""
    return Reason("unknown", f"which key `{asked.sql}` gives is known to Spark alone: add --engine")
