"""Rebuilding: nodes recomputed from their inputs, and everything below them, which follows.

A rebuild is an epoch from offset 0 whose one commit replaces the changelog (`infra.epochs.stages.plan.Rebuild`).
A source is read again from its files or its topic: where some of what it consumed is gone, so would its records be, and
it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from rivermeet.assets.defs.runs import run_pipeline
from rivermeet.assets.project import Project
from rivermeet.pipelines import Pipeline
from rivermeet.pipelines.errors import RivermeetError


class RebuildRefusedError(RivermeetError):
    """A rebuild that would lose records, or that makes no sense; the message says which and why."""

    remedy = "Leave out the node that has no grace; put back what is gone, or add `--lose-missing-files`."


def rebuild(
    project: Project, pipeline: Pipeline, selected: Sequence[str], grace: int | None = None, lossy: bool = False
) -> bool:
    """Recompute nodes, and all that is made of them; True if every step and every blocking check is green.

    Parameters
    ----------
    selected
        Names of nodes; none for all.
    grace
        Milliseconds instead of the declared grace of the selected nodes, as long as they are not rebuilt again.
    lossy
        Whether a source may lose records: of files that are gone, or that its topic has no more.

    Raises
    ------
    RebuildRefusedError
        Where records of a source are gone, or a node has no grace.
    """
    nodes = [node for node in pipeline.stored if not selected or node.name in selected]
    for node in nodes:
        if grace is not None and node.operation is not None:
            try:
                node.operation.with_grace(grace)
            except ValueError as error:
                raise RebuildRefusedError(f"'{pipeline.name}.{node.name}': {error}") from None
        elif grace is not None:
            raise RebuildRefusedError(f"'{pipeline.name}.{node.name}' is a source: it has no grace")
        gone = project.source_step(node).describe_loss() if node.source is not None and not lossy else None
        if gone is not None:
            raise RebuildRefusedError(
                f"source '{node.pipeline.name}.{node.name}': {gone}, and so would their records be; put them back, or "
                "add --lose-missing-files"
            )
    selected = [node.name for node in pipeline.downstream(nodes)]
    return run_pipeline(project, pipeline, selected, {node.name: grace for node in nodes})
