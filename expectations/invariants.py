"""All declared invariants. Importing this loads neither Spark nor Great Expectations."""

from __future__ import annotations

from rivermeet.expectations.invariant import Invariant
from rivermeet.expectations.rules import aggregate as aggregate_rules
from rivermeet.expectations.rules import batch as batch_rules
from rivermeet.expectations.rules import changelog as changelog_rules
from rivermeet.expectations.rules import late as late_rules
from rivermeet.expectations.rules import lookup as lookup_rules
from rivermeet.expectations.rules import partition as partition_rules
from rivermeet.expectations.rules import stream as stream_rules
from rivermeet.expectations.rules import table as table_rules
from rivermeet.expectations.rules import window as window_rules
from rivermeet.expectations.rules.declared import declared_rules
from rivermeet.expectations.rules.verify import VERIFY
from rivermeet.pipelines import Node

__all__ = ["ALL", "Invariant", "invariants_of"]

ALL: tuple[Invariant, ...] = (
    *stream_rules.RULES,
    *window_rules.RULES,
    *lookup_rules.RULES,
    *table_rules.RULES,
    *batch_rules.RULES,
    *aggregate_rules.RULES,
    *changelog_rules.RULES,
    *partition_rules.RULES,
    *late_rules.RULES,
)
_IDS = frozenset(invariant.id for invariant in (*ALL, VERIFY))


def invariants_of(node: Node) -> tuple[Invariant, ...]:
    """Invariants that the node's results must keep: those of `ALL`, in its order, then the pipeline's own."""
    return tuple(invariant for invariant in ALL if invariant.applies_to(node)) + declared_rules(node, _IDS)
