"""`rivermeet why`: the records behind a key's rows, or why it has none, back to files, topics and offsets."""

from __future__ import annotations

import json
import sys

import click

from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.terminal import echo, project_here, standard_json


@click.command()
@click.argument("pipeline")
@click.argument("node")
@click.argument("key")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Newest rows to explain.")
@click.option("--json", "as_text", is_flag=True, help="Print JSON, with values whole.")
@click.option("--engine", is_flag=True, help="Let the engine evaluate keys that are more than a column; starts it.")
@one_line_errors
def why(pipeline: str, node: str, key: str, limit: int, as_text: bool, engine: bool) -> None:
    """Explain the rows of KEY in NODE of PIPELINE, or why there is none; needs no engine.

    KEY is the text of a key of one column, 'column=value,column=value', or a JSON object.
    """
    from rivermeet.assets.why.answer import as_json
    from rivermeet.assets.why.changelogs import Changelogs
    from rivermeet.assets.why.expressions import Expressions
    from rivermeet.assets.why.keys import parse_key
    from rivermeet.assets.why.tree import UNCUT, tree_of
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
