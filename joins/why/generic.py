"""Families without an explanation of their own: the trigger, and what is known of every node."""

from __future__ import annotations

from rivermeet.joins.why.evidence import Evidence, Found, Key, Made, Reason, ResultRow
from rivermeet.pipelines import Operation


def made_of(operation: Operation, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
    """The trigger alone."""
    return Made({trigger.side: trigger}, (f"what else a {operation.family} made it of is not explained",))


def missing(operation: Operation, key: Key, evidence: Evidence) -> list[Reason]:
    """That there is no explanation."""
    return [Reason("unexplained", f"why a {operation.family} has no row of a key is not explained")]
