"""Verdicts of what was evaluated, kept in the quality table."""

from __future__ import annotations

from collections.abc import Sequence

from rivermeet.assets.quality.quality_table import remember
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.results import InvariantResult
from rivermeet.expectations.verdict import Verdict, verdict
from rivermeet.infra.epochs.context import EpochContext, Quality
from rivermeet.pipelines import Node


def record_verdicts(
    context: EpochContext,
    node: Node,
    epoch: int,
    results: Sequence[InvariantResult],
    run: str,
    name: str,
) -> list[Verdict]:
    """Verdicts on results, in the order in which the invariants are declared.

    Parameters
    ----------
    name
        Names what was judged, like ``epoch-000007``.
    """
    quality = quality_of(context)
    order = {invariant.id: place for place, invariant in enumerate(invariants_of(node))}
    found = sorted(results, key=lambda r: order[r.invariant.id])
    remember(quality, node, epoch, found, run, name)
    return [verdict(result) for result in found]


def quality_of(context: EpochContext) -> Quality:
    """Where verdicts are kept, of a context that keeps them."""
    assert context.quality is not None, "verdicts are kept somewhere"
    return context.quality
