"""All declared invariants. Importing this loads neither Spark nor Great Expectations."""

from __future__ import annotations

from rivermeet.expectations.invariant import Invariant
from rivermeet.expectations.rules import changelog, late, lookups, partition, tables
from rivermeet.expectations.rules.declared import declared_rules
from rivermeet.expectations.rules.derived import of_family
from rivermeet.expectations.rules.verify import VERIFY
from rivermeet.pipelines import Node
from rivermeet.pipelines.family import OURS, find_family

__all__ = ["ALL", "Invariant", "invariants_of"]


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


def invariants_of(node: Node) -> tuple[Invariant, ...]:
    """Invariants that the node's results must keep: of `ALL`, in its order, of its family, then the pipeline's own."""
    rules = (*ALL, *(rule for rule in of_family(node, "RULES", ()) if rule not in ALL))
    taken = {rule.id for rule in (*rules, VERIFY)}
    return tuple(rule for rule in rules if rule.applies_to(node)) + declared_rules(node, taken)
