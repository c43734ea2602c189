"""`rivermeet shadow`: what a running Kafka Streams application's output lacks, and has too much, by key and cause."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from rivermeet.assets.cli.run import run_what_is_new
from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.assets.shadow.words import lines, record
from rivermeet.pipelines import Node, Shadow
from rivermeet.pipelines.shadow import shadow as declared


@click.command()
@click.argument("pipeline")
@click.argument("node")
@click.option("--topic", required=True, help="The application's output topic.")
@click.option("--group", metavar="APPLICATION_ID", help="The application's id: what it has not read is not compared.")
@click.option("--committed", is_flag=True, help="Compare with what is committed; do not read what is new first.")
def shadow(pipeline: str, node: str, topic: str, group: str | None, committed: bool) -> None:
    """Audit a Kafka Streams application that computes NODE of PIPELINE: missing, extra and stale rows, by cause.

    Exit code 0: nothing is lost; 1: it is, or could not be compared.
    """
    from rivermeet.assets.shadow.audit import audit
    from rivermeet.assets.shadow.marks import list_origins, mark

    project = project_here()
    found = shadow_of(project.pipeline(pipeline).node(node), topic, group)
    marks = mark(project, found)
    # What the application had read by its mark is read here, and joined.
    nodes = [one.name for one in list_origins(found.node)]
    if not committed and not run_what_is_new(project, found.node.pipeline, nodes, audited=False):
        echo("the run was not green: what is compared is what is committed")
    outcome = audit(project, found, marks)
    record(project, outcome)
    for line in lines(outcome):
        echo(line)
    if not outcome.holds:
        sys.exit(1)


def shadow_of(node: Node, topic: str, group: str | None) -> Shadow:
    """The declared shadow of that topic, or one with the default formats; its group, where one is given."""
    known = next((one for one in node.pipeline.shadows if one.node is node and one.topic == topic), None)
    found = known if known is not None else declared(node, topic, None, None, None)
    return found if group is None else replace(found, group=group)
