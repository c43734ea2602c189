"""The command line: run and look at pipelines without the UI. Commands of a few lines stand here, others by themselves.

Heavy imports are inside the commands, so that ``rivermeet --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from rivermeet.assets.cli.bench import bench
from rivermeet.assets.cli.demo import demo, feed
from rivermeet.assets.cli.diff import diff
from rivermeet.assets.cli.engine import engine
from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.heal import rebuild, verify
from rivermeet.assets.cli.maintain import maintain
from rivermeet.assets.cli.quarantine import quarantine
from rivermeet.assets.cli.replay import explain, replay
from rivermeet.assets.cli.run import run
from rivermeet.assets.cli.shadow import shadow
from rivermeet.assets.cli.sources import accept_loss, check, resnapshot, retry_dead_letters
from rivermeet.assets.cli.sql import show, sql
from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.assets.cli.why import why

PROJECT_VARIABLE = "RIVERMEET_PROJECT"


@click.group()
@click.version_option(package_name="rivermeet")
@click.option(
    "--project",
    type=click.Path(path_type=Path),
    help="Folder of the project; else the nearest with a rivermeet.toml, from the current one upwards.",
)
@click.pass_context
def main(context: click.Context, project: Path | None) -> None:
    """Joins of event streams and change logs in the lakehouse."""
    if project is not None:
        # Of this process and of those that it starts, while the command lasts.
        before = os.environ.get(PROJECT_VARIABLE, "")
        context.call_on_close(partial(os.environ.__setitem__, PROJECT_VARIABLE, before))
        os.environ[PROJECT_VARIABLE] = str(project.absolute())


for command in (
    *(engine, diff, replay, explain, rebuild, verify, retry_dead_letters, accept_loss, check, resnapshot),
    *(maintain, quarantine, shadow, show, sql, why, bench, run, feed, demo),
):
    main.add_command(command)


@main.command()
@click.argument("folder", metavar="NAME", type=click.Path(path_type=Path))
@one_line_errors
def init(folder: Path) -> None:
    """Write a project into the new folder NAME: a pipeline with sample data, its test, settings, and more."""
    from rivermeet.assets.scaffold.write import write_project

    written = write_project(folder)
    for path in written:
        echo(f"wrote {folder / path.relative_to(folder.absolute())}")
    name = next(path.stem for path in written if path.parent.name == "pipelines")
    echo(f'\ncd {folder}\nrivermeet run {name}\nrivermeet sql "select * from {name}.settled"')


@main.command()
@click.argument("pipeline")
@click.option("--format", "as_", type=click.Choice(["mermaid", "svg"]), help="Default: by OUTPUT's end, else mermaid.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@one_line_errors
def graph(pipeline: str, as_: str | None, output: Path | None) -> None:
    """Draw PIPELINE: its sources, what is made of them, and how they hang together."""
    from rivermeet.pipelines.graph import mermaid, svg

    declared = project_here().pipeline(pipeline)
    wanted = as_ or ("svg" if output is not None and output.suffix == ".svg" else "mermaid")
    text = svg(declared) if wanted == "svg" else mermaid(declared)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, "utf-8")


@main.command()
@click.argument("pipelines", nargs=-1, metavar="[PIPELINE]...")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@click.option(
    "--epochs", type=click.IntRange(1), default=500, show_default=True, help="Newest epochs to show of each node."
)
@one_line_errors
def report(pipelines: Sequence[str], output: Path | None, epochs: int) -> None:
    """Write the quality report of each PIPELINE, or of all: one page that needs no network."""
    from rivermeet.assets.reports.quality_report import write_report

    project = project_here()
    named = [project.pipeline(name) for name in dict.fromkeys(pipelines)]
    declared, problems = (named, ()) if named else (project.pipelines, project.problems)
    for file in problems:
        echo(f"not loaded: {file}", err=True)
    path, _ = write_report(project, declared, output and output.absolute(), epochs)
    echo(f"report: {path}")


@main.command()
@click.argument("pipeline", required=False)
@one_line_errors
def status(pipeline: str | None) -> None:
    """Show each node's epoch, rows, lag and last checks."""
    from rivermeet.assets.cli.show.status import status_table

    project = project_here()
    found, problems = ([project.pipeline(pipeline)], ()) if pipeline else (project.pipelines, project.problems)
    for declared in found:
        echo(status_table(project, declared))
    for file in problems:
        echo(f"not loaded: {file}", err=True)
    if problems:
        sys.exit(1)


@main.command()
@click.option("--port", default=3000, show_default=True, help="Port of the page, on 127.0.0.1.")
@one_line_errors
def ui(port: int) -> None:
    """Serve Dagster for this project; history is kept in RIVERMEET_HOME."""
    from rivermeet.assets.cli.web import serve

    serve(port)
