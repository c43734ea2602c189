"""`rivermeet accept-loss`: go on with a topic or a Delta table that no longer has some records that were not read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.assets.project import Project

if TYPE_CHECKING:
    from rivermeet.pipelines import Node


@click.command("accept-loss")
@click.argument("pipeline")
@click.argument("source")
@one_line_errors
def accept_loss(pipeline: str, source: str) -> None:
    """Read what the topic or table of SOURCE has now, although what came before was removed, or it is another one.

    The records so far stay as they are, and the epoch log keeps which offsets or versions were lost. Where nothing is
    lost this is a run like any other.
    """
    project = project_here()
    echo(accepted(project, project.pipeline(pipeline).node(source)))


def accepted(project: Project, node: Node) -> str:
    """Run one epoch of a source that skips what is gone; a line that says what was lost."""
    from rivermeet.assets.epoch.run import run_node
    from rivermeet.infra.source_kinds import kind_of, load, registered_kinds

    kind = kind_of(node)
    if kind is None or not kind.can_lose:
        load()
        kinds = " and no ".join(sorted(one.name for one in registered_kinds().values() if one.can_lose))
        raise click.ClickException(
            f"'{node.pipeline.name}.{node.name}' reads no {kinds}, so that none can lose records"
        )
    step = replace(project.source_step(node), accept_loss=True)
    result = run_node(project.context(node.pipeline), step, str(uuid4())).result
    if result is None or result.plan.reads is None:
        return f"{node.name}: nothing is lost, and nothing is new"
    return f"{node.name}: {result.plan.reads.accepted(result.rows)}"
