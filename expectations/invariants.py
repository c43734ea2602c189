"""All declared invariants. Importing this loads neither Spark nor Great Expectations."""

from __future__ import annotations

from expectations import changelog_rules, late_rules, stream_rules, table_rules
from expectations.invariant import Invariant
from pipelines import Node

__all__ = ["ALL", "Invariant", "invariants_of"]

ALL: tuple[Invariant, ...] = (*stream_rules.RULES, *table_rules.RULES, *changelog_rules.RULES, *late_rules.RULES)


def invariants_of(node: Node) -> tuple[Invariant, ...]:
    """Invariants that the node's results must keep, in the order of `ALL`."""
    return tuple(invariant for invariant in ALL if invariant.applies_to(node))
