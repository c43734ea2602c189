"""`rivermeet check` and `rivermeet resnapshot`: what keeps tables of PostgreSQL from being read, and the way on."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.assets.project import Project

if TYPE_CHECKING:
    from rivermeet.infra.sources.standing import Finding
    from rivermeet.pipelines import Node, Pipeline


@click.command()
@click.argument("pipeline")
@one_line_errors
def check(pipeline: str) -> None:
    """Say what keeps the PostgreSQL tables of PIPELINE from being read, with a script for psql that corrects it.

    Of those that can be read: how far they were, and how much log the slot holds back.
    """
    project = project_here()
    found = list(checked(project, project.pipeline(pipeline)))
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
@one_line_errors
def resnapshot(pipeline: str, source: str | None) -> None:
    """Read the PostgreSQL table of SOURCE, or of all sources, as it stands, in place of what was read before."""
    from rivermeet.assets.defs.rebuild import rebuild

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


def checked(project: Project, pipeline: Pipeline) -> Iterator[Finding]:
    """What there is to say about each source: all that its run would be refused for, or how far it was read."""
    for node in pipeline.stored:
        if node.source is not None:
            yield from project.source_step(node).findings()


def tables_of(pipeline: Pipeline) -> list[Node]:
    """The sources that can be read as they stand, in place of what was read before."""
    from rivermeet.infra.source_kinds import kind_of

    return [node for node in pipeline.stored if (kind := kind_of(node)) is not None and kind.has_snapshots]
