"""``rivermeet report``: write the quality report. Held by ``tests/assets/reports/test_report.py``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.terminal import echo, project_here


@click.command()
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
