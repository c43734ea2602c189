"""stream ⋈ table: a row is its stream record, with what the table had then; of a versioned one, at the record's time.

    left  k A     row (A, null): 'right' had no k yet, it came later      right-came-later
    right k a     nothing: the table never triggers
    left  k B     row (B, a)

With a grace the record waits, and another record releases it: then the trigger is not the record itself. Held by
``tests/joins/why/test_lookups.py``.
"""

from __future__ import annotations

from rivermeet.joins.why.evidence import Evidence, Found, Key, Made, Reason, ResultRow, is_there, standing
from rivermeet.joins.why.lookups import Looked, looked_up, made, not_found
from rivermeet.joins.why.lookups import missing as missing_rows
from rivermeet.pipelines import StreamTableJoin


def made_of(join: StreamTableJoin, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
    """The stream's record, and what the table had of the key that it looks up."""
    left = _waited(row, trigger, evidence) if join.delays_rows else trigger
    if left is None:
        return Made({"left": None, "right": None}, ("its stream record is not found",))
    says = "it waited for the grace of the table, and the trigger released it"
    return made(left, _found(join, left, trigger, evidence), (says,) if left is not trigger else ())


def _waited(row: ResultRow, trigger: Found, evidence: Evidence) -> Found | None:
    """The record of the row's key and timestamp: of several alike the last before the trigger."""
    assert trigger.order is not None
    alike = [one for one in evidence.records("left", row.key) if one.timestamp == row.timestamp and is_there(one)]
    return standing(alike, trigger.order)


def _found(join: StreamTableJoin, left: Found, trigger: Found, evidence: Evidence) -> Looked:
    assert trigger.order is not None
    return looked_up(join, left, trigger.order, evidence, left.timestamp if join.reads_history("right") else None)


def missing(join: StreamTableJoin, key: Key, evidence: Evidence) -> list[Reason]:
    """Why no record of the stream's key gave a row, each with its reason."""

    def joined(left: Found) -> Reason | None:
        waiting = Reason("waiting", "it waits for the grace of the table: no later record has released it", (left,))
        return not_found(join, left, _found(join, left, left, evidence)) or (waiting if join.delays_rows else None)

    return missing_rows(join, key, evidence, joined)
