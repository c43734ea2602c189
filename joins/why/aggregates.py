"""Aggregates: a row is its group's aggregate after one more record, which is its trigger; rows before it are its past.

    count by city    o1 {Rome}    Rome 1, triggered by o1
                     o2 {Rome}    Rome 2, triggered by o2
                     o1 {Oslo}    Rome 1, triggered by o1, which left the group; Oslo 1
    count by window  a @12 into [10, 20), after that has closed: late

All records of a group are not listed: each is the trigger of a row of its own. Held by
``tests/joins/why/test_one_input.py``.
"""

from __future__ import annotations

from rivermeet.joins.why.evidence import Evidence, Found, Key, Made, Reason, ResultRow, moment, named, span
from rivermeet.pipelines import TableAggregate, WindowedAggregate

Aggregate = TableAggregate | WindowedAggregate
WINDOW = ("window_start", "window_end")


def made_of(operation: Aggregate, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
    """The record that changed the group."""
    says = ["its group's other records are the triggers of its earlier rows"]
    if row.value is None:
        says = ["the last record of the group left it"]
    elif trigger.value is None:
        says.append("the trigger is a deletion: its old row left the group")
    return Made({"left": trigger}, tuple(says))


def missing(operation: Aggregate, key: Key, evidence: Evidence) -> list[Reason]:
    """Why the group has no row."""
    name = operation.input.name
    if isinstance(operation, TableAggregate):
        by = ", ".join(f"`{column.sql}`" for column in operation.key.values())
        return [Reason("no-group", f"no row of '{name}' that was read belongs to {named(key)} by {by}")]
    own = {column: value for column, value in key.items() if column not in WINDOW}
    records = evidence.records("left", own)
    if not records:
        return [Reason("no-left", f"'{name}' has no record of {named(own)}", asked=("left", own))]
    start, end = (key[column] for column in WINDOW)
    within = [one for one in records if start <= one.timestamp < end]
    found: list[Reason] = []
    for late in evidence.late(own):
        if start <= late.timestamp < end and late.close is not None and late.stream_time is not None:
            by = span(late.stream_time - late.close)
            says = f"its record at {moment(late.timestamp)} came {by} after its last window had closed (late table)"
            found.append(Reason("late", says))
    if waiting := tuple(one for one in within if one.order is None):
        found.append(Reason("left-not-read", f"it is in '{name}', and was not read yet: run the pipeline", waiting))
    if not within:
        nearest = min(records, key=lambda one: (max(start - one.timestamp, one.timestamp - end), one.offset))
        says = f"no record of {named(own)} lies in the window; the nearest is at {moment(nearest.timestamp)}"
        found.append(Reason("outside", says, (nearest,)))
    elif not found:
        found.append(Reason("closed", "the window had closed when its records came", tuple(within)))
    return found
