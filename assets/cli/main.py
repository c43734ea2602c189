"""The command line: run and look at pipelines without the UI. Commands of a few lines stand here, others by themselves.

Heavy imports are inside the commands, so that ``rivermeet --help`` answers at once.
"""

from __future__ import annotations

import json
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
from rivermeet.assets.cli.heal import rebuild, verify
from rivermeet.assets.cli.quarantine import quarantine
from rivermeet.assets.cli.replay import explain, replay
from rivermeet.assets.cli.run import run
from rivermeet.assets.cli.shadow import shadow
from rivermeet.assets.cli.sources import accept_loss, check, resnapshot, retry_dead_letters
from rivermeet.assets.cli.sql import show, sql
from rivermeet.assets.cli.terminal import CommandLine, echo, project_here, standard_json
from rivermeet.assets.reports.quality_report import write_report
from rivermeet.assets.scaffold.write import write_project
from rivermeet.pipelines.graph import mermaid, svg
from rivermeet.pipelines.plural import pluralize

PROJECT_VARIABLE = "RIVERMEET_PROJECT"
EPOCHS = click.IntRange(1)


@click.group(cls=CommandLine)
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
    *(quarantine, shadow, show, sql, bench, run, feed, demo),
):
    main.add_command(command)


@main.command()
@click.argument("folder", metavar="NAME", type=click.Path(path_type=Path))
def init(folder: Path) -> None:
    """Write a project into the new folder NAME: a pipeline with sample data, its test, settings, and more."""
    written = write_project(folder)
    for path in written:
        echo(f"wrote {folder / path.relative_to(folder.absolute())}")
    name = next(path.stem for path in written if path.parent.name == "pipelines")
    echo(f'\ncd {folder}\nrivermeet run {name}\nrivermeet sql "select * from {name}.settled"')


@main.command()
@click.argument("pipeline")
@click.option("--format", "as_", type=click.Choice(["mermaid", "svg"]), help="Default: by OUTPUT's end, else mermaid.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
def graph(pipeline: str, as_: str | None, output: Path | None) -> None:
    """Draw PIPELINE: its sources, what is made of them, and how they hang together."""
    declared = project_here().pipeline(pipeline)
    wanted = as_ or ("svg" if output is not None and output.suffix == ".svg" else "mermaid")
    text = svg(declared) if wanted == "svg" else mermaid(declared)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, "utf-8")


@main.command()
@click.argument("pipeline")
@click.option(
    "--keep-versions",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Newest versions to keep of each table.",
)
@click.option("--keep-late", type=EPOCHS, metavar="EPOCHS", help="Remove late rows of older epochs; default: keep all.")
@click.option("--keep-dead-letters", type=EPOCHS, metavar="EPOCHS", help="Remove dead letters of older epochs.")
@click.option("--keep-measurements", type=EPOCHS, metavar="EPOCHS", help="Remove measurements of older epochs.")
def maintain(
    pipeline: str,
    keep_versions: int,
    keep_late: int | None,
    keep_dead_letters: int | None,
    keep_measurements: int | None,
) -> None:
    """Compact small files of PIPELINE's tables, and remove what no run can need any more."""
    from rivermeet.assets.defs.maintenance import maintain_pipeline
    from rivermeet.infra.delta.table_care import Retention

    project = project_here()
    declared = project.pipeline(pipeline)
    keep = Retention(versions=keep_versions, late=keep_late, dead_letter=keep_dead_letters, measured=keep_measurements)
    done = maintain_pipeline(project, declared, keep)
    changed = [one for one in done if one.did]
    for one in changed:
        files, size = (f"{before:,} -> {after:,}" for before, after in (one.files, one.size))
        echo(f"{one.table:<36} {', '.join(one.did)}: files {files}; bytes {size}")
    echo(f"{len(changed)} of {pluralize(len(done), 'table')} changed")


@main.command()
@click.argument("pipelines", nargs=-1, metavar="[PIPELINE]...")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@click.option(
    "--epochs", type=click.IntRange(1), default=500, show_default=True, help="Newest epochs to show of each node."
)
def report(pipelines: Sequence[str], output: Path | None, epochs: int) -> None:
    """Write the quality report of each PIPELINE, or of all: one page that needs no network."""
    project = project_here()
    named = [project.pipeline(name) for name in dict.fromkeys(pipelines)]
    declared, problems = (named, ()) if named else (project.pipelines, project.problems)
    for file in problems:
        echo(f"not loaded: {file}", err=True)
    path, _ = write_report(project, declared, output and output.absolute(), epochs)
    echo(f"report: {path}")


@main.command()
@click.argument("pipeline", required=False)
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
def ui(port: int) -> None:
    """Serve Dagster for this project; history is kept in RIVERMEET_HOME."""
    from rivermeet.assets.cli.web import serve

    serve(port)


@main.command()
@click.argument("pipeline")
@click.argument("node")
@click.argument("key")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Newest rows to explain.")
@click.option("--json", "as_text", is_flag=True, help="Print JSON, with values whole.")
@click.option("--engine", is_flag=True, help="Let the engine evaluate keys that are more than a column; starts it.")
def why(pipeline: str, node: str, key: str, limit: int, as_text: bool, engine: bool) -> None:
    """Explain the rows of KEY in NODE of PIPELINE, or why there is none; needs no engine.

    KEY is the text of a key of one column, 'column=value,column=value', or a JSON object.
    """
    from rivermeet.assets.why.answer import UNCUT, as_json, tree_of
    from rivermeet.assets.why.changelogs import Changelogs
    from rivermeet.assets.why.keys import parse_key
    from rivermeet.assets.why.records import Expressions
    from rivermeet.assets.why.walk import Walk

    project = project_here()
    declared = project.pipeline(pipeline).node(node)
    if not declared.is_stored:
        raise click.ClickException(f"'{node}' is a view, and nothing of it is stored: ask the tables that it joins")
    changelogs = Changelogs(project)
    asked = parse_key(key, changelogs.of(declared).key_type, node)
    answer = Walk(changelogs, Expressions(project.sessions.open if engine else None)).why(declared, asked, limit)
    if as_text:
        echo(standard_json(json.dumps(as_json(answer), ensure_ascii=False, indent=2)))
        return
    from rich.console import Console

    # In a file or a pipe a line is a line; a terminal has its own width.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else UNCUT)
    console.print(tree_of(answer), no_wrap=not sys.stdout.isatty(), crop=False)
