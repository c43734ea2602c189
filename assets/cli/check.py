"""`rivermeet check` and `rivermeet resnapshot`: what keeps tables of PostgreSQL from being read, and the way on."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.terminal import echo, platform_here

if TYPE_CHECKING:
    from rivermeet.assets.epoch.platform import Platform
    from rivermeet.infra.sources.postgres.ingest import PostgresStep
    from rivermeet.pipelines import Node, Pipeline


@click.command()
@click.argument("pipeline")
@one_line_errors
def check(pipeline: str) -> None:
    """Say what keeps the PostgreSQL tables of PIPELINE from being read, with a script for psql that mends it.

    Of those that can be read: how far they were, and how much log the slot holds back.
    """
    from rivermeet.pipelines import load

    found = list(checked(platform_here(), load(pipeline)))
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
    from rivermeet.assets.epoch.rebuild import rebuild
    from rivermeet.pipelines import load

    declared, platform = load(pipeline), platform_here()
    tables = [node.name for node in tables_of(declared)]
    if source is not None and declared.node(source).name not in tables:
        raise click.ClickException(
            f"'{pipeline}.{source}' reads no table of PostgreSQL; there are {', '.join(tables) or 'none'}"
        )
    if not rebuild(platform, declared, [source] if source is not None else tables, lossy=True):
        sys.exit(1)


class Finding(NamedTuple):
    """A line about a table, whether it is good, and else the SQL statements that mend it in a database, if any do."""

    line: str
    is_good: bool
    database: str = ""
    cure: Sequence[str] = ()


def script(found: Iterable[Finding]) -> Iterator[str]:
    """All that mends what was found, as one script for psql, each statement once; nothing where no statement does."""
    by_database: dict[str, dict[str, None]] = {}
    for one in found:
        by_database.setdefault(one.database, {}).update(dict.fromkeys(one.cure))
    statements = [statement for of in by_database.values() for statement in of]
    if statements:
        yield "\n-- as a superuser, or whoever owns the tables, with psql:"
    for database, of in by_database.items():
        if of:
            yield "\\connect {}".format('"' + database.replace('"', '""') + '"')
            # Once it is published, a table without an identity cannot be updated any more.
            yield from (f"{statement};" for statement in sorted(of, key=lambda one: one.split()[1] == "PUBLICATION"))
    if any(statement.startswith("ALTER SYSTEM") for statement in statements):
        yield "-- then restart the server"


def checked(platform: Platform, pipeline: Pipeline) -> Iterator[Finding]:
    """What there is to say about each table: all that its run would be refused for, or how far it was read."""
    from rivermeet.infra.epochs.refusal import EpochRefusedError
    from rivermeet.infra.postgres.state import table_state
    from rivermeet.infra.postgres.unique import key_warning
    from rivermeet.infra.settings import SettingsError
    from rivermeet.infra.sources.postgres.lag import lag_of

    for node in tables_of(pipeline):
        step = table_step(platform, node)
        try:
            read = step.position(step.note())
            with step.database.asked() as connection:
                problems = list(step.problems(connection, read))
                table = table_state(connection, step.reads)
                warning = key_warning(connection, step.reads)
            for problem in problems:
                yield Finding(f"{node.name}: {problem}", False, step.database.name, problem.cure)
            if problems:
                continue
            about = "not read yet" if read is None else lag_of(step.database, step.slot, read).shown
            if table is not None and table.heirs:
                about += f"; rows of what inherits from it are no part of it: {', '.join(table.heirs)}"
            about += f"; {warning}" if warning is not None else ""
            yield Finding(f"{node.name}: table '{step.reads.table}' can be read; {about}", True)
        except (EpochRefusedError, SettingsError) as refusal:
            yield Finding(f"{node.name}: {refusal}", False)


def tables_of(pipeline: Pipeline) -> list[Node]:
    """The sources that read PostgreSQL."""
    from rivermeet.pipelines import Postgres

    return [node for node in pipeline.stored if node.source is not None and isinstance(node.source.reads, Postgres)]


def table_step(platform: Platform, node: Node) -> PostgresStep:
    """The step of a source that reads PostgreSQL."""
    from rivermeet.infra.sources.postgres.ingest import PostgresStep

    step = platform.source_step(node)
    assert isinstance(step, PostgresStep), f"{node.name} reads a table"
    return step
