"""All invariants. Importing this loads neither Spark nor Great Expectations.

A pipeline's own rules are invariants like those of the documents:

    PIPELINE.check(trips, "arrives_after_departure", "A flight arrives after it departed.",
                   "SELECT * FROM {rows} WHERE value.arrived < value.departed")

Held by ``tests/expectations/test_declared_rules.py``.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.metadata import entry_points

from rivermeet.expectations.invariant import ANY, Invariant
from rivermeet.expectations.rules import changelog, late, lookups, partition, tables
from rivermeet.expectations.rules.derived import of_family
from rivermeet.expectations.rules.record_sql import USERS
from rivermeet.expectations.rules.verify import VERIFY
from rivermeet.pipelines import Check, Node
from rivermeet.pipelines.errors import RivermeetError
from rivermeet.pipelines.family import OURS, find_family

__all__ = ["ALL", "Invariant", "invariants_of"]

GROUP = "rivermeet.rules"
"""Entry points of other packages: each names a sequence of `Invariant`."""


class RuleTakenError(RivermeetError):
    """A rule of another package has the name of one that is there already."""

    remedy = "Uninstall one of the two packages."


def _of_families() -> tuple[Invariant, ...]:
    """Those in the rules of our families; a module that several name is taken once."""
    modules = dict.fromkeys(module for name in OURS if (module := find_family(name).rules_module) is not None)
    return tuple(rule for module in modules for rule in module.RULES)


ALL: tuple[Invariant, ...] = (
    *_of_families(),
    *lookups.RULES,
    *tables.RULES,
    *changelog.RULES,
    *partition.RULES,
    *late.RULES,
)


@cache
def load_installed() -> tuple[Invariant, ...]:
    """Those of other packages that are installed here.

    Raises
    ------
    RuleTakenError
        Where one is called like another.
    """
    found: dict[str, Invariant] = {}
    for entry in entry_points(group=GROUP):
        for rule in entry.load():
            if rule.id in found or any(rule.id == ours.id for ours in ALL):
                raise RuleTakenError(
                    f"{entry.value} gives a rule '{rule.id}', and there is one already: uninstall either", rule=rule.id
                )
            found[rule.id] = rule
    return tuple(found.values())


def invariants_of(node: Node) -> tuple[Invariant, ...]:
    """What the node's results must keep: `ALL` in order, its family's, installed rules, then the pipeline's own."""
    rules = (*ALL, *(rule for rule in of_family(node, "RULES", ()) if rule not in ALL), *load_installed())
    taken = {rule.id for rule in (*rules, VERIFY)}
    own = (_from_check(node, check, taken) for check in node.pipeline.checks_of(node))
    return (*(rule for rule in rules if rule.applies_to(node)), *own)


def _from_check(node: Node, check: Check, taken: Collection[str]) -> Invariant:
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
