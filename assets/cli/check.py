"""`rivermeet check` and `rivermeet resnapshot`: what keeps tables of PostgreSQL from being read, and the way on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from assets.cli.errors import one_line_errors
from assets.cli.terminal import platform_here

if TYPE_CHECKING:
    from assets.epoch.platform import Platform
    from infra.sources.postgres.ingest import PostgresStep
    from pipelines import Node, Pipeline


@click.command()
@click.argument("pipeline")
@one_line_errors
def check(pipeline: str) -> None:
    """Say what keeps the PostgreSQL tables of PIPELINE from being read, and how much log its slot holds back."""
    from pipelines import load

    found = list(checked(platform_here(), load(pipeline)))
    for line, _ in found:
        click.echo(line)
    if not found:
        click.echo(f"{pipeline}: no source reads PostgreSQL")
    if not all(good for _, good in found):
        sys.exit(1)


@click.command()
@click.argument("pipeline")
@click.argument("source", required=False)
@one_line_errors
def resnapshot(pipeline: str, source: str | None) -> None:
    """Read the PostgreSQL table of SOURCE, or of all sources, as it stands, in place of what was read before."""
    from assets.epoch.rebuild import rebuild
    from pipelines import load

    declared, platform = load(pipeline), platform_here()
    tables = [node.name for node in tables_of(declared)]
    if source is not None and declared.node(source).name not in tables:
        raise click.ClickException(
            f"'{pipeline}.{source}' reads no table of PostgreSQL; there are {', '.join(tables) or 'none'}"
        )
    if not rebuild(platform, declared, [source] if source is not None else tables, lossy=True):
        sys.exit(1)


def checked(platform: Platform, pipeline: Pipeline) -> Iterator[tuple[str, bool]]:
    """Lines about each table, and whether what they say is good."""
    from infra.epochs.refusal import EpochRefusedError
    from infra.settings import SettingsError
    from infra.sources.postgres.lag import lag_of

    for node in tables_of(pipeline):
        step = table_step(platform, node)
        try:
            read = step.position(step.note())
            with step.database.asked() as connection:
                problems = list(step.problems(connection, read))
            for problem in problems:
                yield f"{node.name}: {problem}", False
            if problems:
                continue
            about = "not read yet" if read is None else lag_of(step.database, step.slot, read).shown
            yield f"{node.name}: table '{step.reads.table}' can be read; {about}", True
        except (EpochRefusedError, SettingsError) as refusal:
            yield f"{node.name}: {refusal}", False


def tables_of(pipeline: Pipeline) -> list[Node]:
    """The sources that read PostgreSQL."""
    from pipelines import Postgres

    return [node for node in pipeline.stored if node.source is not None and isinstance(node.source.reads, Postgres)]


def table_step(platform: Platform, node: Node) -> PostgresStep:
    """The step of a source that reads PostgreSQL."""
    from infra.sources.postgres.ingest import PostgresStep

    step = platform.source_step(node)
    assert isinstance(step, PostgresStep), f"{node.name} reads a table"
    return step
