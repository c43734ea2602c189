"""stream ⋈ global table: a row is its stream record, with what the table had of the key that it looks up.

    right f x     in the same epoch as
    left  k f     row (f, x): an epoch's records of the table are loaded before its facts

With ``bootstrap="timestamp"`` each record sees the table as of its place in the order. Held by
``tests/joins/why/test_lookups.py``.
"""

from __future__ import annotations

import math

from rivermeet.joins.why.evidence import Evidence, Found, Key, Made, Reason, ResultRow
from rivermeet.joins.why.lookups import Looked, looked_up, made, not_found
from rivermeet.joins.why.lookups import missing as missing_rows
from rivermeet.pipelines import StreamGlobalJoin


def made_of(join: StreamGlobalJoin, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
    """The stream's record, and what the table had of the key that it looks up."""
    return made(trigger, _found(join, trigger, evidence))


def _found(join: StreamGlobalJoin, left: Found, evidence: Evidence) -> Looked:
    assert left.order is not None
    return looked_up(join, left, (left.order[0], math.inf) if join.table_first else left.order, evidence)


def missing(join: StreamGlobalJoin, key: Key, evidence: Evidence) -> list[Reason]:
    """Why no record of the stream's key gave a row, each with its reason."""
    return missing_rows(join, key, evidence, lambda left: not_found(join, left, _found(join, left, evidence)))
