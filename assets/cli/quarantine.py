"""`rivermeet quarantine`: look at epochs that their audit refused, and decide about them."""

from __future__ import annotations

import sys
from datetime import datetime
from getpass import getuser
from typing import TYPE_CHECKING, Literal

import click

from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.assets.project import Project
from rivermeet.infra.printable import printable
from rivermeet.pipelines import Node, limits
from rivermeet.pipelines.plural import pluralize

if TYPE_CHECKING:
    from rivermeet.assets.refused.states import HeldState

ROW_WIDTH = 500
"""Characters of a row; the SQL gives all of it."""


@click.group()
def quarantine() -> None:
    """Show epochs that were refused for a violated invariant; release or drop their rows."""


@quarantine.command()
@click.argument("pipeline")
@click.option("--select", "selected", metavar="NODE", help="Only this node.")
@click.option("--limit", default=limits.SHOWN_ROWS, show_default=True, help="Rows to show of each epoch.")
def show(pipeline: str, selected: str | None, limit: int) -> None:
    """Show PIPELINE's refused epochs: what they broke, what became of them, and their first rows. Needs no engine."""
    from rivermeet.assets.refused.states import states

    project = project_here()
    declared = project.pipeline(pipeline)
    nodes = [declared.node(selected)] if selected else declared.stored
    refused = 0
    for node in nodes:
        for state in states(project.context(declared), node):
            refused += 1
            echo(_describe(project, node, state, limit))
    if not refused:
        echo("no epoch was refused by its audit")


def _describe(project: Project, node: Node, state: HeldState, limit: int) -> str:
    from rivermeet.assets.quality.relations.parts import sql_name
    from rivermeet.assets.refused.states import sample

    held, paths = state.held, project.paths(node)
    lines = [
        f"{node.pipeline.name}.{node.name}, epoch {held.epoch}: {state.summary}",
        f"  refused at {datetime.fromisoformat(held.at):%Y-%m-%d %H:%M:%S} UTC by run {held.run}, "
        f"incarnation {held.incarnation}, attempt {held.attempt}; {pluralize(held.rows, 'row')}",
    ]
    for rule in held.broken:
        query = "\n".join(f"      {line}" for line in rule.sql.splitlines())
        lines += [f"  {rule.id}: {rule.sentence} {rule.finding}", "    to see them:", query]
    rows = [printable(row) for row in sample(paths, held.epoch, limit)]
    lines += [f"    {row if len(row) <= ROW_WIDTH else row[:ROW_WIDTH] + '…'}" for row in rows]
    if held.rows > len(rows):
        lines.append(f"    … {held.rows - len(rows):,} more")
    lines.append(f"  all rows: SELECT * FROM {sql_name(paths, 'quarantine')} WHERE epoch = {held.epoch}")
    if state.state == "held":
        where = f"{node.pipeline.name} --select {node.name} --epoch {held.epoch}"
        lines.append(f"  rivermeet quarantine release {where}: commits them as they are")
        lines.append(f"  rivermeet quarantine drop {where}: passes them over")
    elif state.open:
        lines.append(f"  rivermeet run {node.pipeline.name} --select {node.name}: carries the decision out")
    return "\n".join(lines)


@quarantine.command()
@click.argument("pipeline")
@click.option("--select", "selected", metavar="NODE", required=True, help="The node.")
@click.option("--epoch", type=int, required=True, help="Its held epoch.")
def release(pipeline: str, selected: str, epoch: int) -> None:
    """Accept the rows of a held epoch: its plan is run once more and committed unchanged.

    What is accepted are the rows that were refused and the invariants that they broke. Where the plan gives other rows,
    or breaks another invariant, the epoch is held again. The checks still show the violation.
    """
    _decide(pipeline, selected, epoch, "release")


@quarantine.command()
@click.argument("pipeline")
@click.option("--select", "selected", metavar="NODE", required=True, help="The node.")
@click.option("--epoch", type=int, required=True, help="Its held epoch.")
@click.option("--yes", is_flag=True, help="Drop without confirmation.")
def drop(pipeline: str, selected: str, epoch: int, yes: bool) -> None:
    """Commit a held epoch without its rows, which stay in the quarantine.

    Refused where later rows would be wrong without them: for computed tables, and left and outer joins of streams.
    """
    _decide(pipeline, selected, epoch, "drop", ask=not yes)


def _decide(pipeline: str, selected: str, epoch: int, how: Literal["release", "drop"], ask: bool = False) -> None:
    from rivermeet.assets.defs.runs import run_pipeline
    from rivermeet.assets.refused.states import decidable, decide, loss, states

    project = project_here()
    declared = project.pipeline(pipeline)
    node, context = declared.node(selected), project.context(declared)
    found = decidable(context, node, epoch, how)
    if ask:
        echo(f"{pluralize(found.held.rows, 'row')} of {pipeline}.{selected}, epoch {epoch}. {loss(node)}")
        click.confirm("Drop them?", abort=True)
    decide(context, node, epoch, how, getuser())
    good = run_pipeline(project, declared, [node.name])
    now = next(state for state in states(context, node) if state.held.epoch == epoch)
    echo(f"{pipeline}.{selected}, epoch {epoch}: {now.summary}")
    if not good or now.open:
        sys.exit(1)
