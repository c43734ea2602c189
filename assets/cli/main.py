"""The command line: run and look at pipelines without the UI.

Heavy imports are inside the commands, so that ``rivermeet --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rivermeet.assets.bench.run import bench
from rivermeet.assets.cli.accept_loss import accept_loss
from rivermeet.assets.cli.check import check, resnapshot
from rivermeet.assets.cli.dead_letters import retry_dead_letters
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
from rivermeet.assets.cli.shadow import shadow
from rivermeet.assets.cli.sql import show, sql
from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.assets.cli.why import why
from rivermeet.assets.project import Project

if TYPE_CHECKING:
    from rivermeet.pipelines import Pipeline


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


@main.command()
@click.argument("pipeline")
@click.option("--select", "selected", multiple=True, metavar="ASSET", help="Only this node; may be repeated.")
@click.option("--plan", "only_plan", is_flag=True, help="Print the stages that would run, and run nothing.")
@one_line_errors
def run(pipeline: str, selected: Sequence[str], only_plan: bool) -> None:
    """Materialise PIPELINE: read what is new, join it, check it."""
    project = project_here()
    declared = project.pipeline(pipeline)
    for name in selected:
        declared.node(name)
    if only_plan:
        from rivermeet.assets.epoch.explain import explain as stages

        for line in stages(project, declared, selected):
            echo(line)
        return
    if not _run(project, declared, selected):
        sys.exit(1)


def _run(project: Project, pipeline: Pipeline, selected: Sequence[str] = ()) -> bool:
    from rivermeet.assets.epoch.idle import idle_run

    idle = idle_run(project, pipeline, selected)
    if idle is not None:
        if any((project.settings.dagster_home / "processes").glob("*")):
            from rivermeet.assets.defs.runs import close_runs_left

            for line in close_runs_left(project.settings):
                project.say(f"  {line}")
        return idle
    from rivermeet.assets.defs.runs import run_pipeline

    return run_pipeline(project, pipeline, selected)


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
@click.argument("pipeline")
@click.option("--step", type=int, help="Last delivery to make, from 1; default all.")
@click.option("--kafka", "broker", metavar="HOST:PORT", help="Deliver the rows as topics of this broker instead.")
@one_line_errors
def feed(pipeline: str, step: int | None, broker: str | None) -> None:
    """Deliver the files of PIPELINE's own source system into the data folder, or their rows as topics."""
    from rivermeet.infra.feeds.registry import feed as deliver
    from rivermeet.infra.settings import Settings

    settings = Settings.from_env()
    if broker is not None:
        from rivermeet.infra.feeds.topics import TopicFeed

        topics = TopicFeed({**settings.kafka, "bootstrap.servers": broker}, settings.home / "delivered")
        said = topics.deliver(pipeline, step)
    else:
        said = [f"wrote {path}" for path in deliver(pipeline, settings.data_folder, step)]
    for line in said:
        echo(line)
    if not said:
        echo("all delivered already")


@main.command()
@click.argument("pipeline", default="flights")
@click.option("--kafka", "over_topics", is_flag=True, help="Over topics too, of a broker here, and compare the rows.")
@one_line_errors
def demo(pipeline: str, over_topics: bool) -> None:
    """Feed PIPELINE step by step, run it after each, and print what came out."""
    from rivermeet.assets.cli.show.results import print_results
    from rivermeet.assets.project import demo_project
    from rivermeet.assets.reports.quality_report import write_report
    from rivermeet.infra.feeds.registry import feed as deliver
    from rivermeet.infra.feeds.registry import steps

    project = project_here(demo_project)
    declared = project.pipeline(pipeline)
    if over_topics:
        from rivermeet.assets.demo.kafka import demonstrated

        sys.exit(0 if demonstrated(declared, project) else 1)
    root, green = project.settings.data_folder, True
    deliveries = []
    for step in range(1, steps(pipeline) + 1):
        written = deliver(pipeline, root, step)
        if written:
            deliveries.append(step)
            echo(f"step {step} of {steps(pipeline)}: {len(written)} files delivered")
            green = _run(project, declared)
            if not green:
                break
    if not deliveries:
        echo("all files were delivered before; looking for anything new")
        green = _run(project, declared)
    print_results(project, declared)
    path, _ = write_report(project, [declared])
    echo(f"\nreport: {path}")
    sys.exit(0 if green else 1)


@main.command()
@click.option("--port", default=3000, show_default=True, help="Port of the page, on 127.0.0.1.")
@one_line_errors
def ui(port: int) -> None:
    """Serve Dagster for this project; history is kept in RIVERMEET_HOME."""
    from rivermeet.assets.cli.web import serve

    serve(port)
