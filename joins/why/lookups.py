"""What families share whose stream records look up a table: what was found, and why nothing was.

left  k A     row (A, null): 'right' had no k yet, it came later      right-came-later
right k a     nothing: the table never triggers
left  k B     row (B, a)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from rivermeet.joins.why.evidence import Evidence, Found, Key, Made, Order, Reason, Unknown, is_there, named, standing
from rivermeet.joins.why.tables import history, nothing_there, unknown
from rivermeet.pipelines import Node
from rivermeet.pipelines.joins import How


class LookUp(Protocol):
    """A join of a stream with a table that is looked up by ``key``."""

    @property
    def how(self) -> How:
        """Inner or left."""
        ...

    @property
    def left(self) -> Node:
        """The stream."""
        ...

    @property
    def right(self) -> Node:
        """The table."""
        ...

    @property
    def key(self) -> Mapping[str, str]:
        """Key column of the table to an expression over the stream record."""
        ...


Looked = tuple[Found | None, Reason | None]
"""The row that a record finds, and why there is none."""


def looked_up(join: LookUp, left: Found, at: Order, evidence: Evidence, as_of: int | None = None) -> Looked:
    """What a stream record finds in the table as it is at a place in the order; as of a time (ms) if that is given."""
    key = evidence.mapped(join.key, left)
    if isinstance(key, Unknown):
        return None, unknown("right", key)
    if key is None:
        return None, Reason("no-look-up-key", f"its key to look up in '{join.right.name}' is null", (left,))
    records = evidence.records("right", key)
    known = records if as_of is None else [one for one in records if one.timestamp <= as_of]
    right = standing(known, at, history(join.right))
    if is_there(right):
        return right, None
    return None, nothing_there(join.right, "right", key, records, at)


def made(left: Found, looked: Looked, says: tuple[str, ...] = ()) -> Made:
    """A row of a stream record and what it found."""
    right, why = looked
    if why is None or right is not None:
        return Made({"left": left, "right": right}, says)
    return Made({"left": left, "right": right}, (*says, why.says), (why.asked,) if why.asked else ())


def missing(join: LookUp, key: Key, evidence: Evidence, joined: Callable[[Found], Reason | None]) -> list[Reason]:
    """Why no record of the stream's key gave a row, each with its reason.

    Parameters
    ----------
    joined
        Why a record that was joined has no row; None where the rules give it one.
    """
    lefts = evidence.records("left", key)
    if not lefts:
        return [Reason("no-left", f"'{join.left.name}' has no record of {named(key)}", asked=("left", key))]
    return [_without_row(join, one, joined) for one in lefts]


def not_found(join: LookUp, left: Found, looked: Looked) -> Reason | None:
    """Why an inner join has no row of a record: it found nothing."""
    right, why = looked
    if join.how != "inner" or right is not None or why is None:
        return None
    return Reason(why.code, why.says, (left, *why.records), why.asked)


def _without_row(join: LookUp, left: Found, joined: Callable[[Found], Reason | None]) -> Reason:
    if left.order is None:
        return Reason(
            "left-not-read", f"it is in '{join.left.name}', and was not joined yet: run the pipeline", (left,)
        )
    if left.value is None:
        return Reason("null-value", f"its record in '{join.left.name}' has no value, and looks up nothing", (left,))
    return joined(left) or Reason(
        "unexplained", "it was joined, and has no row: rivermeet verify compares with a full recompute", (left,)
    )
