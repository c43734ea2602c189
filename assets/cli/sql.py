"""`rivermeet sql` and `rivermeet show`: what is committed, as of the newest commit; no engine is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from rivermeet.assets.cli.terminal import echo, project_here, without_pipelines
from rivermeet.assets.project import Project

Command = Callable[..., None]


def _output_options(command: Command) -> Command:
    options = (
        click.option("--json", "as_json", is_flag=True, help="Short for --format json."),
        click.option(
            "--format",
            "as_",
            type=click.Choice(["table", "csv", "json", "parquet"]),
            help="Default: by OUTPUT's end, else a table.",
        ),
        click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write."),
    )
    for option in options:
        command = option(command)
    return command


@click.command()
@click.argument("query", required=False)
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Rows that a table shows.")
@_output_options
def sql(query: str | None, limit: int, as_json: bool, as_: str | None, output: Path | None) -> None:
    """Print the rows of QUERY, in DuckDB's SQL; without it, what there is to read.

    PIPELINE.NODE is what a node has now; PIPELINE.NODE.changelog its records, and so are table, late, dead_letter and
    quarantine; AT (VERSION => 7) reads one of these at a version. quality has what checks found. A table has some rows;
    CSV, JSON and Parquet have all of them.
    """
    project = project_here(without_pipelines)
    if query is None:
        for name in project.committed.names():
            echo(name)
        return
    _give(project, query, _format(as_json, as_, output), output, limit, "--limit, or --json for all")


@click.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Rows that are shown.")
@click.option("--all", "everything", is_flag=True, help="All rows.")
@_output_options
def show(name: str, limit: int, everything: bool, as_json: bool, as_: str | None, output: Path | None) -> None:
    """Print what NAME has now, PIPELINE.NODE, the newest first: a table's live rows, a stream's records.

    PIPELINE.NODE.late, .dead_letter, .changelog, … show these as they are.
    """
    from rivermeet.assets.sql.query import select_all

    as_ = _format(as_json, as_, output)
    query = select_all(name)
    if not everything and as_ != "table":
        query = f"{query} LIMIT {limit}"
    _give(project_here(without_pipelines), query, as_, output, 2**62 if everything else limit, "--limit, or --all")


def _format(as_json: bool, as_: str | None, output: Path | None) -> str:
    ends = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}
    wanted = as_ or ("json" if as_json else ends.get(output.suffix, "table") if output is not None else "table")
    if wanted == "parquet" and output is None:
        raise click.UsageError("Parquet is a file: give its name with -o")
    if wanted == "table" and output is not None:
        raise click.UsageError(f"a table is for the terminal; give --format, or a name with {', '.join(ends)}")
    return wanted


def _give(project: Project, query: str, as_: str, output: Path | None, limit: int, more: str) -> None:
    from rivermeet.assets.cli.show.rows import print_table, write

    found = project.ask(query, as_json=as_ == "json")
    if as_ == "table":
        print_table(found, limit, more)
    else:
        write(found, as_, output)
