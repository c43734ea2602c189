"""`rivermeet init`: write a project."""

from __future__ import annotations

from pathlib import Path

import click

from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.terminal import echo


@click.command()
@click.argument("folder", metavar="NAME", type=click.Path(path_type=Path))
@one_line_errors
def init(folder: Path) -> None:
    """Write a project into the new folder NAME: a pipeline with sample data, its test, settings, and more."""
    from rivermeet.assets.scaffold.write import write_project

    written = write_project(folder)
    for path in written:
        echo(f"wrote {folder / path.relative_to(folder.absolute())}")
    name = next(path.stem for path in written if path.parent.name == "pipelines")
    echo(f'\ncd {folder}\nrivermeet run {name}\nrivermeet sql "select * from {name}.settled"')
