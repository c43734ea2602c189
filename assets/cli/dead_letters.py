"""`rivermeet retry-dead-letters`: read dead letters again, after what was wrong with them was corrected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.assets.project import Project
from rivermeet.pipelines.counted import counted

if TYPE_CHECKING:
    from rivermeet.pipelines import Node, Pipeline


@click.command("retry-dead-letters")
@click.argument("pipeline")
@click.option("--select", "selected", multiple=True, metavar="SOURCE", help="Only this source; may be repeated.")
@one_line_errors
def retry_dead_letters(pipeline: str, selected: Sequence[str]) -> None:
    """Read the dead letters of PIPELINE's sources again, by the current declaration.

    Those that are records now are appended to the source's changelog, after all that it has, as a late delivery is: run
    the pipeline to join them. The others stay dead letters, with their new reason. A file that could not be read is
    read again where it lies; a record of a topic is decoded again from the bytes that its letter keeps.
    """
    project = project_here()
    declared = project.pipeline(pipeline)
    for node in _sources(declared, selected):
        echo(retried(project, node))


def _sources(pipeline: Pipeline, selected: Sequence[str]) -> list[Node]:
    nodes = [pipeline.node(name) for name in selected] or [node for node in pipeline.stored if node.source]
    for node in nodes:
        if node.source is None:
            sources = ", ".join(n.name for n in pipeline.stored if n.source)
            raise click.ClickException(
                f"'{pipeline.name}.{node.name}' reads no files or topic and has no dead letters; "
                f"select one of {sources}"
            )
    return nodes


def retried(project: Project, node: Node) -> str:
    """Retry the open dead letters of a source in one epoch; a line that says what became of them."""
    from rivermeet.assets.epoch.run import run_node

    step = replace(project.source_step(node), retry=True)
    context = project.context(node.pipeline)
    while True:
        letters = step.open_letters().count
        result = run_node(context, step, str(uuid4())).result
        if result is None:
            return f"{node.name}: no dead letters to retry"
        if result.plan.retries:
            dead = result.sides["dead_letter"]
            done = f"{counted(letters, 'dead letter')} retried, {counted(result.rows, 'record')}"
            return f"{node.name}: {done}, {dead:,} still dead"
        # An epoch of new files or records that a killed run had planned came first, unchanged.
