"""A share of the keys: those of some partitions, which are whole.

A key's partition is a hash of it, equal on both sides of a co-partitioned join, and a partition has its own stream
time, order and caches: whatever is computed of one alone is what a run of all gives. Of some of a partition's keys that
would not hold, because the records of the others move its stream time.

    share 1/4 of 8 partitions     those whose number modulo 4 is below 1: 0 and 4
    share 1/4 of 2 partitions     0, which is half of the keys
    share 1/4 of 1 partition      all keys

What is looked up from anywhere, such as the right table of a foreign-key join, is read whole. A node is computed whole
where its own rows come from anywhere, as a select-key's do, or where one below reads it whole. Held by
``tests/assets/diff/test_share.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rivermeet.infra.delta.io import last_note
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.pipelines import Node
from rivermeet.pipelines.plural import pluralize


@dataclass(frozen=True)
class Sample:
    """The partitions of a node that are computed and compared, of so many."""

    partitions: tuple[int, ...]
    of: int

    def __str__(self) -> str:
        if len(self.partitions) == self.of:
            return "all keys"
        return f"keys of {len(self.partitions)} of {pluralize(self.of, 'partition')}"


def find_sampled(affected: Sequence[Node]) -> list[Node]:
    """Those of the affected nodes, inputs first, that can be computed of some partitions alone."""
    found: dict[str, Node] = {}
    for node in reversed(affected):
        operation = node.operation
        assert operation is not None, "a source is not computed"
        read_whole = any(
            other.name not in found or side not in other.operation.by_partition
            for other in affected
            if other.operation is not None
            for side, part in other.operation.stored_inputs.items()
            if part.name == node.name
        )
        if operation.by_partition and not read_whole:
            found[node.name] = node
    return [node for node in affected if node.name in found]


def samples(context: EpochContext, affected: Sequence[Node], share: Fraction) -> Mapping[str, Sample]:
    """Names of nodes that are computed of some partitions alone, with these."""
    found: dict[str, Sample] = {}
    for node in find_sampled(affected):
        assert node.operation is not None
        known = {0}
        for side in node.operation.by_partition:
            part = node.operation.inputs[side]
            if part.name in found:
                known.add(found[part.name].of - 1)
            elif (committed := last_note(context.paths(part).changelog)) is not None:
                known.update(committed[1].ends)
        of = max(known) + 1
        chosen = (p for p in range(of) if p % share.denominator < share.numerator)
        found[node.name] = Sample(tuple(chosen), of)
    return found
