"""Invariants of what is dropped: an operator that takes a record back from its result says so in the late table.

A few late records are what grace is about; many mean a grace too short, a source that lags, or keys that are missing.
So the rule has a threshold, and warns. What is judged are the records that the epoch read, and its violations are those
that it dropped, so that a check shows the share whether it passes or not:

    3 of 100 records dropped      passes, "3 violations in 100 rows"
    6 of 100 records dropped      warns

Held by ``tests/expectations/test_late_share.py``.
"""

from __future__ import annotations

from rivermeet.expectations.invariant import Rule
from rivermeet.pipelines import Node

MAX_LATE_SHARE = 0.05
"""Share of an epoch's records that may be dropped without a warning."""


def _answers_all(node: Node) -> str | None:
    made = node.operation
    looks_up = made is not None and made.triggers == ("left",) and made.type not in (None, "inner")
    return "every record of its stream gets a row" if looks_up else None


@Rule(
    "KIP-633, grace; KStream.toTable, dropped records",
    ("stream-stream", "stream-table", "stream-globaltable", "windowed-aggregate", "to-table"),
    profiles=("3.1", "kafka-4"),
    severity="warning",
    stage="table",
    tolerated=MAX_LATE_SHARE,
    excluded=_answers_all,
)
def late_share(node: Node) -> str:
    """At most 5% of an epoch's records are dropped as late, or without a key."""
    return "SELECT * FROM {late}"


RULES = (late_share,)
