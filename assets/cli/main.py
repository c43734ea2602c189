"""The command line: run and look at pipelines without the UI.

Heavy imports are inside the commands, so that ``rivermeet --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import click

from rivermeet.assets.cli.accept_loss import accept_loss
from rivermeet.assets.cli.bench import bench
from rivermeet.assets.cli.check import check, resnapshot
from rivermeet.assets.cli.dead_letters import retry_dead_letters
from rivermeet.assets.cli.demo import demo, feed
from rivermeet.assets.cli.diff import diff
from rivermeet.assets.cli.engine import engine
from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.graph import graph
from rivermeet.assets.cli.heal import rebuild, verify
from rivermeet.assets.cli.init import init
from rivermeet.assets.cli.maintain import maintain
from rivermeet.assets.cli.quarantine import quarantine
from rivermeet.assets.cli.replay import explain, replay
from rivermeet.assets.cli.report import report
from rivermeet.assets.cli.run import run
from rivermeet.assets.cli.shadow import shadow
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


main.add_command(init)
main.add_command(engine)
main.add_command(diff)
main.add_command(graph)
main.add_command(replay)
main.add_command(explain)
main.add_command(rebuild)
main.add_command(verify)
main.add_command(retry_dead_letters)
main.add_command(accept_loss)
main.add_command(check)
main.add_command(resnapshot)
main.add_command(maintain)
main.add_command(quarantine)
main.add_command(report)
main.add_command(shadow)
main.add_command(show)
main.add_command(sql)
main.add_command(why)
main.add_command(bench)
main.add_command(run)
main.add_command(feed)
main.add_command(demo)


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
