"""Verdicts of what was evaluated: judged by Great Expectations, and kept in the quality table."""

from __future__ import annotations

from collections.abc import Sequence

from assets.quality.quality_table import remember
from expectations.invariants import invariants_of
from expectations.results import InvariantResult
from expectations.verdict import Verdict
from infra.epochs.context import EpochContext, Quality
from pipelines import Node


def record_verdicts(
    context: EpochContext,
    node: Node,
    epoch: int,
    results: Sequence[InvariantResult],
    run: str,
    name: str,
    part: str = "",
) -> list[Verdict]:
    """Verdicts on results, in the order in which the invariants are declared.

    Parameters
    ----------
    name
        Names the validation, like ``epoch-000007``.
    part
        What of the node was judged, where that is judged at moments of its own: the newest validation of an asset must
        be of all that is judged together. Held by ``tests/assets/quality/test_planted.py``.
    """
    from expectations.gx.suite import judge

    quality = quality_of(context)
    order = {invariant.id: place for place, invariant in enumerate(invariants_of(node))}
    found = sorted(results, key=lambda r: order[r.invariant.id])
    asset = ".".join(filter(None, (node.pipeline.name, node.name, part)))
    verdicts = judge(found, asset, name, quality.reports / "gx")
    remember(quality, node, epoch, found, run, name)
    return verdicts


def quality_of(context: EpochContext) -> Quality:
    """Where verdicts are kept, of a context that keeps them."""
    assert context.quality is not None, "verdicts are kept somewhere"
    return context.quality
