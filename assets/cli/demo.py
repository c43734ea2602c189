"""``rivermeet demo`` and ``rivermeet feed``: the pipelines that come along, and the deliveries of their own sources."""

from __future__ import annotations

import sys

import click

from rivermeet.assets.cli.run import run_what_is_new
from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.assets.demo.feeds import feed as deliver
from rivermeet.assets.demo.feeds import steps
from rivermeet.assets.project import demo_project
from rivermeet.assets.reports.quality_report import write_report
from rivermeet.infra.settings import Settings
from rivermeet.pipelines.plural import pluralize


@click.command()
@click.argument("pipeline")
@click.option("--step", type=int, help="Last delivery to make, from 1; default all.")
@click.option("--kafka", "broker", metavar="HOST:PORT", help="Deliver the rows as topics of this broker instead.")
def feed(pipeline: str, step: int | None, broker: str | None) -> None:
    """Deliver the files of PIPELINE's own source system into the data folder, or their rows as topics."""
    settings = Settings.from_env()
    if broker is not None:
        from rivermeet.assets.demo.topics import TopicFeed

        topics = TopicFeed({**settings.kafka, "bootstrap.servers": broker}, settings.home / "delivered")
        said = topics.deliver(pipeline, step)
    else:
        said = [f"wrote {path}" for path in deliver(pipeline, settings.data_folder, step)]
    for line in said:
        echo(line)
    if not said:
        echo("all delivered already")


@click.command()
@click.argument("pipeline", default="flights")
def demo(pipeline: str) -> None:
    """Feed PIPELINE step by step, run it after each, and print what came out.

    In a checkout, `make demo-kafka` does the same over the topics of a broker that it starts.
    """
    from rivermeet.assets.cli.show.results import print_results

    project = project_here(demo_project)
    declared = project.pipeline(pipeline)
    root, green = project.settings.data_folder, True
    deliveries = []
    for step in range(1, steps(pipeline) + 1):
        written = deliver(pipeline, root, step)
        if written:
            deliveries.append(step)
            echo(f"step {step} of {steps(pipeline)}: {pluralize(len(written), 'file')} delivered")
            green = run_what_is_new(project, declared)
            if not green:
                break
    if not deliveries:
        echo("all files were delivered before; looking for anything new")
        green = run_what_is_new(project, declared)
    print_results(project, declared)
    path, _ = write_report(project, [declared])
    echo(f"\nreport: {path}")
    sys.exit(0 if green else 1)
