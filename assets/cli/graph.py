"""`rivermeet graph`: a pipeline as a picture, from its declaration alone."""

from __future__ import annotations

from pathlib import Path

import click

from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.terminal import project_here


@click.command()
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
