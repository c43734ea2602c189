"""``rivermeet maintain``: keep a pipeline's tables small, without the UI.

Held by ``tests/assets/defs/test_maintain.py``.
"""

from __future__ import annotations

import click

from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.pipelines.plural import pluralize

EPOCHS = click.IntRange(1)


@click.command()
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
@one_line_errors
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
