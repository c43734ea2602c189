"""A stream that looks up a table, or a global table: a row is its record, with what the table had then.

    left  k A     row (A, null): 'right' had no k yet, it came later      right-came-later
    right k a     nothing: the table never triggers
    left  k B     row (B, a)

With a grace the record waits, and another record releases it: then the trigger is not the record itself. Where an
epoch's records of a global table are loaded first, they are seen by all of its facts. Held by
``tests/joins/why/test_lookups.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from rivermeet.joins.why.evidence import (
    Evidence,
    Found,
    Key,
    Made,
    Order,
    Reason,
    ResultRow,
    Unknown,
    is_there,
    named,
    standing,
)
from rivermeet.joins.why.tables import history, nothing_there, unknown
from rivermeet.pipelines import Node, StreamGlobalJoin, StreamTableJoin

LookUp = StreamTableJoin | StreamGlobalJoin


def made_of(join: LookUp, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
    """The stream's record, and what the table had of the key that it looks up."""
    left = _waited(row, trigger, evidence) if join.delays_rows else trigger
    says: list[str] = []
    if left is None:
        return Made({"left": None, "right": None}, ("its stream record is not found",))
    if left is not trigger:
        says.append("it waited for the grace of the table, and the trigger released it")
    right, why = _looked_up(join, left, trigger, evidence)
    if why is None or right is not None:
        return Made({"left": left, "right": right}, tuple(says))
    return Made({"left": left, "right": right}, (*says, why.says), (why.asked,) if why.asked else ())


def _waited(row: ResultRow, trigger: Found, evidence: Evidence) -> Found | None:
    """The record of the row's key and timestamp: of several alike the last before the trigger."""
    assert trigger.order is not None
    alike = [one for one in evidence.records("left", row.key) if one.timestamp == row.timestamp and is_there(one)]
    return standing(alike, trigger.order)


def _looked_up(join: LookUp, left: Found, trigger: Found, evidence: Evidence) -> tuple[Found | None, Reason | None]:
    """The row that the record finds, and why there is none."""
    assert trigger.order is not None
    key = evidence.mapped(join.key, left)
    if isinstance(key, Unknown):
        return None, unknown("right", key)
    if key is None:
        return None, Reason("no-look-up-key", f"its key to look up in '{join.right.name}' is null", (left,))
    at: Order = (trigger.order[0], math.inf) if join.table_first else trigger.order
    records = evidence.records("right", key)
    right = _version(records, at, history(join.right), left.timestamp)
    if is_there(right):
        return right, None
    return None, nothing_there(cast(Node, join.right), "right", key, records, at)


def _version(records: Sequence[Found], at: Order, versions: int | None, timestamp: int) -> Found | None:
    """What the table has then; of a versioned one, as of the record's timestamp."""
    known = records if versions is None else [one for one in records if one.timestamp <= timestamp]
    return standing(known, at, versions)


def missing(join: LookUp, key: Key, evidence: Evidence) -> list[Reason]:
    """Why no record of the stream's key gave a row, each with its reason."""
    lefts = evidence.records("left", key)
    if not lefts:
        return [Reason("no-left", f"'{join.left.name}' has no record of {named(key)}", asked=("left", key))]
    return [_without_row(join, one, evidence) for one in lefts]


def _without_row(join: LookUp, left: Found, evidence: Evidence) -> Reason:
    if left.order is None:
        return Reason(
            "left-not-read", f"it is in '{join.left.name}', and was not joined yet: run the pipeline", (left,)
        )
    if left.value is None:
        return Reason("null-value", f"its record in '{join.left.name}' has no value, and looks up nothing", (left,))
    if join.how == "inner":
        found, why = _looked_up(join, left, left, evidence)
        if found is None and why is not None:
            return Reason(why.code, why.says, (left, *why.records), why.asked)
    if join.delays_rows:
        return Reason("waiting", "it waits for the grace of the table: no later record has released it", (left,))
    return Reason(
        "unexplained", "it was joined, and has no row: rivermeet verify compares with a full recompute", (left,)
    )
