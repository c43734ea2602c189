"""Words for a family that has a reference and no words of its own: its rules as they are."""

from __future__ import annotations

from collections.abc import Mapping

from rivermeet.joins.reference.records import RULES
from rivermeet.joins.why.evidence import Found, Key, Reason
from rivermeet.joins.why.replay import Met, Replay
from rivermeet.joins.why.words import explain_by_rule, report_no_record
from rivermeet.pipelines import Operation


def reads(operation: Operation, key: Key, trigger: Found | None) -> Mapping[str, Key]:
    """The key on each side that has as many columns."""
    same = {side: node.key for side, node in operation.inputs.items() if len(node.key) == len(key)}
    return {side: dict(zip(columns, key.values(), strict=True)) for side, columns in same.items()}


def of_row(operation: Operation, met: Met, replayed: Replay) -> list[Reason]:
    """The rule, where it is not that all were joined."""
    return [] if met.rule == "joined" else [Reason(met.rule, RULES[met.rule])]


def of_absence(operation: Operation, key: Key, replayed: Replay) -> list[Reason]:
    """The rule of each record, or that it has none."""
    found: list[Reason] = []
    for side, own in reads(operation, key, None).items():
        records = replayed.of_key(side, own)
        found += [explain_by_rule(replayed, one) for one in records] or [report_no_record(replayed, side, own)]
    return found
