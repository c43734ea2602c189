"""Aggregates: a row is its group's aggregate after one more record, which is its trigger; rows before it are its past.

    count by city    o1 {Rome}    Rome 1, triggered by o1
                     o2 {Rome}    Rome 2, triggered by o2
                     o1 {Oslo}    Rome 1, triggered by o1, which left the group; Oslo 1
    count by window  a @12 into [10, 20), after that has closed: late

All records of a group are not listed: each is the trigger of a row of its own. Held by
``tests/joins/why/test_one_input.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from rivermeet.joins.why.evidence import Found, Key, Reason, moment, show_key
from rivermeet.joins.why.replay import Met, Replay
from rivermeet.joins.why.words import find_late, report_no_record
from rivermeet.pipelines import TableAggregate, WindowedAggregate

Aggregate = TableAggregate | WindowedAggregate
WINDOW = ("window_start", "window_end")


def reads(operation: Aggregate, key: Key, trigger: Found | None) -> Mapping[str, Key]:
    """Of a window its key; of a group, which an expression gives, the key of what triggered a row."""
    if isinstance(operation, TableAggregate):
        return {} if trigger is None or trigger.key is None else {"left": trigger.key}
    return {"left": {column: value for column, value in key.items() if column not in WINDOW}}


def of_row(operation: Aggregate, met: Met, replayed: Replay) -> list[Reason]:
    """Whether the record joined the group or left it, and whether anything is left there."""
    if met.is_end:
        return [Reason("left-group", "the last record of the group left it")]
    found = [Reason("joined", "its group's other records are the triggers of its earlier rows")]
    if met.trigger.value is None:
        found.append(Reason("left-group", "the trigger is a deletion: its old row left the group"))
    elif met.rule == "left-group":
        found.append(Reason("left-group", "the trigger belongs to another group now, and left this one"))
    return found


def of_absence(operation: Aggregate, key: Key, replayed: Replay) -> list[Reason]:
    """Why there is no row of the group."""
    name = operation.input.name
    if isinstance(operation, TableAggregate):
        by = ", ".join(f"`{column.sql}`" for column in operation.key.values())
        return [Reason("no-group", f"no row of '{name}' that was read belongs to {show_key(key)} by {by}")]
    own = reads(operation, key, None)["left"]
    records = replayed.of_key("left", own)
    if not records:
        return [report_no_record(replayed, "left", own)]
    start, end = (key[column] for column in WINDOW)
    within = [one for one in records if start <= one.timestamp < end]
    if not within:
        nearest = min(records, key=lambda one: (max(start - one.timestamp, one.timestamp - end), one.offset))
        says = f"no record of {show_key(own)} lies in the window; the nearest is at {moment(nearest.timestamp)}"
        return [Reason("outside", says, (nearest,))]
    found = find_late(replayed, within)
    if waiting := tuple(one for one in within if one.order is None):
        found.append(Reason("left-not-read", f"it is in '{name}', and was not read yet: run the pipeline", waiting))
    return found or [Reason("closed", "the window had closed when its records came", tuple(within))]
