"""Rules that a pipeline declares of its own, as invariants like those of the documents.

    PIPELINE.check(trips, "arrives_after_departure", "A flight arrives after it departed.",
                   "SELECT * FROM {rows} WHERE value.arrived < value.departed")

Held by ``tests/expectations/test_declared_rules.py``.
"""

from __future__ import annotations

from collections.abc import Collection

from rivermeet.expectations.invariant import ANY, Invariant
from rivermeet.expectations.rules.record_sql import USERS
from rivermeet.pipelines import Check, Node


def declared_rules(node: Node, taken: Collection[str]) -> tuple[Invariant, ...]:
    """The node's own rules, none of which may be called like one of the ``taken``."""
    return tuple(_rule(node, check, taken) for check in node.pipeline.checks_of(node))


def _rule(node: Node, check: Check, taken: Collection[str]) -> Invariant:
    if check.id in taken:
        raise node.refuse(node.name, f"check {check.id!r}: a built-in invariant is called so; choose another name")
    return Invariant(
        id=check.id,
        sentence=check.sentence,
        source=f"pipeline {node.pipeline.name}, declared there",
        families=ANY,
        profiles=None,
        needs_table=check.of_table,
        severity=check.severity,
        blocking=check.blocking,
        stage="table" if check.on_committed else "epoch",
        violations=lambda _: USERS + check.violations,
    )
