"""Commands about what sources read: what keeps them from it, and the ways on.

check                 what keeps tables of PostgreSQL from being read
resnapshot            read them as they stand, in place of what was read before
accept-loss           go on with a topic or a Delta table that no longer has some records that were not read
retry-dead-letters    read dead letters again, after what was wrong with them was corrected
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from uuid import uuid4

import click

from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.assets.project import Project
from rivermeet.infra.sources.standing import Finding
from rivermeet.pipelines import Node, Pipeline
from rivermeet.pipelines.plural import pluralize


@click.command()
@click.argument("pipeline")
def check(pipeline: str) -> None:
    """Say what keeps the PostgreSQL tables of PIPELINE from being read, with a script for psql that corrects it.

    Of those that can be read: how far they were, and how much log the slot holds back.
    """
    project = project_here()
    found = list(inspect_sources(project, project.pipeline(pipeline)))
    for one in found:
        echo(one.line)
    if not found:
        echo(f"{pipeline}: no source reads PostgreSQL")
    for line in script(found):
        echo(line)
    if not all(one.is_good for one in found):
        sys.exit(1)


@click.command()
@click.argument("pipeline")
@click.argument("source", required=False)
def resnapshot(pipeline: str, source: str | None) -> None:
    """Read the PostgreSQL table of SOURCE, or of all sources, as it stands, in place of what was read before."""
    from rivermeet.assets.defs.runs import rebuild

    project = project_here()
    declared = project.pipeline(pipeline)
    tables = [node.name for node in tables_of(declared)]
    if source is not None and declared.node(source).name not in tables:
        raise click.ClickException(
            f"'{pipeline}.{source}' reads no table of PostgreSQL; there are {', '.join(tables) or 'none'}"
        )
    if not rebuild(project, declared, [source] if source is not None else tables, lossy=True):
        sys.exit(1)


def script(found: Iterable[Finding]) -> Iterator[str]:
    """Give the statements that correct what was found as one script for psql, each once; empty where none does."""
    by_database: dict[str, dict[str, None]] = {}
    for one in found:
        by_database.setdefault(one.database, {}).update(dict.fromkeys(one.cure))
    statements = [statement for of in by_database.values() for statement in of]
    if statements:
        yield "\n-- as a superuser, or the owner of the tables, with psql:"
    for database, of in by_database.items():
        if of:
            yield "\\connect {}".format('"' + database.replace('"', '""') + '"')
            # Once it is published, a table without an identity cannot be updated any more.
            yield from (f"{statement};" for statement in sorted(of, key=lambda one: one.split()[1] == "PUBLICATION"))
    if any(statement.startswith("ALTER SYSTEM") for statement in statements):
        yield "-- then restart the server"


def inspect_sources(project: Project, pipeline: Pipeline) -> Iterator[Finding]:
    """What there is to say about each source: all that its run would be refused for, or how far it was read."""
    for node in pipeline.stored:
        if node.source is not None:
            yield from project.source_step(node).findings()


def tables_of(pipeline: Pipeline) -> list[Node]:
    """The sources that can be read as they stand, in place of what was read before."""
    from rivermeet.infra.source_kinds import kind_of

    return [node for node in pipeline.stored if (kind := kind_of(node)) is not None and kind.has_snapshots]


@click.command("accept-loss")
@click.argument("pipeline")
@click.argument("source")
def accept_loss(pipeline: str, source: str) -> None:
    """Read what the topic or table of SOURCE has now, although what came before was removed, or it is another one.

    The records so far stay as they are, and the epoch log keeps which offsets or versions were lost. Where nothing is
    lost this is a run like any other.
    """
    project = project_here()
    echo(run_accepting_loss(project, project.pipeline(pipeline).node(source)))


def run_accepting_loss(project: Project, node: Node) -> str:
    """Run one epoch of a source that skips what is gone; a line that says what was lost."""
    from rivermeet.assets.epoch.run import run_node
    from rivermeet.infra.source_kinds import KINDS, kind_of, load

    kind = kind_of(node)
    if kind is None or not kind.can_lose:
        load()
        kinds = " and no ".join(sorted(one.name for one in KINDS.values() if one.can_lose))
        raise click.ClickException(
            f"'{node.pipeline.name}.{node.name}' reads no {kinds}, so that none can lose records"
        )
    step = replace(project.source_step(node), accept_loss=True)
    result = run_node(project.context(node.pipeline), step, str(uuid4())).result
    if result is None or result.plan.reads is None:
        return f"{node.name}: nothing is lost, and nothing is new"
    return f"{node.name}: {result.plan.reads.describe_loss(result.rows)}"


@click.command("retry-dead-letters")
@click.argument("pipeline")
@click.option("--select", "selected", multiple=True, metavar="SOURCE", help="Only this source; may be repeated.")
def retry_dead_letters(pipeline: str, selected: Sequence[str]) -> None:
    """Read the dead letters of PIPELINE's sources again, by the current declaration.

    Those that are records now are appended to the source's changelog, after all that it has, as a late delivery is: run
    the pipeline to join them. The others stay dead letters, with their new reason. A file that could not be read is
    read again where it lies; a record of a topic is decoded again from the bytes that its letter keeps.
    """
    project = project_here()
    declared = project.pipeline(pipeline)
    for node in _sources(declared, selected):
        echo(retry_letters(project, node))


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


def retry_letters(project: Project, node: Node) -> str:
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
            done = f"{pluralize(letters, 'dead letter')} retried, {pluralize(result.rows, 'record')}"
            return f"{node.name}: {done}, {dead:,} still dead"
        # An epoch of new files or records that a killed run had planned came first, unchanged.
