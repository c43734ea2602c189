"""`rivermeet sql`: a query over what is committed; no engine is needed."""

from __future__ import annotations

import click

from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.terminal import echo, platform_here, standard_json


@click.command()
@click.argument("query", required=False)
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Rows that are printed.")
@click.option("--json", "as_json", is_flag=True, help="Print each row as a line of JSON, all of them.")
@one_line_errors
def sql(query: str | None, limit: int, as_json: bool) -> None:
    """Print the rows of QUERY, in DuckDB's SQL; without it, what there is to read.

    PIPELINE.NODE is what a node has now; PIPELINE.NODE.changelog its records, and so are table, late, dead_letter and
    quarantine; AT (VERSION => 7) reads one of these at a version. quality has what checks found.
    """
    from rivermeet.assets.cli.show.table import table
    from rivermeet.assets.sql.query import CommittedState, QueryError

    platform = platform_here()
    own = platform.settings
    state = CommittedState(own.tables, platform.quality.table)
    if query is None:
        for name in state.names():
            echo(name)
        return
    try:
        found = state.ask(query, own.judge_memory, own.spill, as_json=as_json)
    except QueryError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        for row in found.column(0).to_pylist():
            echo(standard_json(row))
        return
    lines = [
        ["null" if cell is None else cell for cell in row]
        for row in zip(*(c.to_pylist() for c in found.slice(0, limit).columns), strict=True)
    ]
    echo(table(found.column_names, [list(line) for line in lines]))
    if found.num_rows > limit:
        echo(f"{found.num_rows - limit:,} more rows: --limit, or --json for all")
