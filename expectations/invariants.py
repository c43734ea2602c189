"""All invariants. Importing this loads neither Spark nor Great Expectations.

A pipeline's own rules are invariants like those of the documents:

    PIPELINE.check(trips, "arrives_after_departure", "A flight arrives after it departed.",
                   "SELECT * FROM {rows} WHERE value.arrived < value.departed")

Held by ``tests/expectations/test_declared_rules.py``.
"""

from __future__ import annotations

from collections.abc import Collection

from rivermeet.expectations.invariant import ANY, Invariant
from rivermeet.expectations.rules import changelog, late, lookups, partition, tables
from rivermeet.expectations.rules.derived import of_family
from rivermeet.expectations.rules.record_sql import USERS
from rivermeet.expectations.rules.verify import VERIFY
from rivermeet.pipelines import Check, Node
from rivermeet.pipelines.family import OURS, named

__all__ = ["ALL", "Invariant", "invariants_of"]


def _of_families() -> tuple[Invariant, ...]:
    """Those in the rules of our families; a module that several name is taken once."""
    modules = dict.fromkeys(module for name in OURS if (module := named(name).rules_module) is not None)
    return tuple(rule for module in modules for rule in module.RULES)


ALL: tuple[Invariant, ...] = (
    *_of_families(),
    *lookups.RULES,
    *tables.RULES,
    *changelog.RULES,
    *partition.RULES,
    *late.RULES,
)


def invariants_of(node: Node) -> tuple[Invariant, ...]:
    """Invariants that the node's results must keep: of `ALL`, in its order, of its family, then the pipeline's own."""
    rules = (*ALL, *(rule for rule in of_family(node, "RULES", ()) if rule not in ALL))
    taken = {rule.id for rule in (*rules, VERIFY)}
    own = (_declared(node, check, taken) for check in node.pipeline.checks_of(node))
    return (*(rule for rule in rules if rule.applies_to(node)), *own)


def _declared(node: Node, check: Check, taken: Collection[str]) -> Invariant:
    if check.id in taken:
        raise node.refuse(node.name, f"check {check.id!r}: a built-in invariant is called so; choose another name")
    return Invariant(
        source=f"pipeline {node.pipeline.name}, declared there",
        families=ANY,
        profiles=None,
        needs_table=check.of_table,
        severity=check.severity,
        blocking=check.blocking,
        stage="table" if check.on_committed else "epoch",
        id=check.id,
        sentence=check.sentence,
        violations=lambda _: USERS + check.violations,
    )
