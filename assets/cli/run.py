"""``rivermeet run``: one run of a pipeline, without Dagster where there is nothing new."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.assets.project import Project
from rivermeet.pipelines import Pipeline


@click.command()
@click.argument("pipeline")
@click.option("--select", "selected", multiple=True, metavar="ASSET", help="Only this node; may be repeated.")
@click.option("--plan", "only_plan", is_flag=True, help="Print the stages that would run, and run nothing.")
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
    if not run_what_is_new(project, declared, selected):
        sys.exit(1)


def run_what_is_new(
    project: Project, pipeline: Pipeline, selected: Sequence[str] = (), *, audited: bool = True
) -> bool:
    """Run the pipeline; whether all was green."""
    from rivermeet.assets.epoch.idle import idle_run

    idle = idle_run(project, pipeline, selected)
    if idle is not None:
        if any((project.settings.dagster_home / "processes").glob("*")):
            from rivermeet.assets.defs.runs import close_runs_left

            for line in close_runs_left(project.settings):
                project.say(f"  {line}")
        return idle
    # It has loaded Great Expectations by the time that nodes want the cores.
    project.pages.start()
    from rivermeet.assets.defs.runs import run_pipeline

    return run_pipeline(project, pipeline, selected, audited=audited)
