"""What heals and what proves: ``rivermeet rebuild`` and ``rivermeet verify``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

import click

from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.expectations.results import InvariantResult
from rivermeet.pipelines import limits
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.window import duration_ms


def milliseconds(_: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """A duration that was given as an option, in ms."""
    try:
        return duration_ms(text) if text else None
    except ValueError as error:
        raise click.BadParameter(str(error), param=option) from None


@click.command()
@click.argument("pipeline")
@click.option("--select", "selected", multiple=True, metavar="ASSET", help="Only this node; may be repeated.")
@click.option(
    "--grace",
    metavar="DURATION",
    callback=milliseconds,
    help="Replay with this grace instead of the declared one, such as 10m.",
)
@click.option("--table-only", is_flag=True, help="Only fold the table again from its changelog.")
@click.option("--lose-missing-files", "lossy", is_flag=True, help="Do without files and records that are gone.")
def rebuild(pipeline: str, selected: Sequence[str], grace: int | None, table_only: bool, lossy: bool) -> None:
    """Recompute PIPELINE from its inputs and replace its rows in one commit; nodes below it follow."""
    from rivermeet.assets.defs.runs import rebuild as compute_anew

    project = project_here()
    declared = project.pipeline(pipeline)
    nodes = [declared.node(name) for name in selected] or list(declared.stored)
    if table_only:
        from rivermeet.infra.epochs.stages.fold import refold

        for node in nodes:
            if refold(project.context(declared), node):
                echo(f"  {node.name:<24} table folded again")
        return
    if not compute_anew(project, declared, selected, grace, lossy):
        sys.exit(1)


def _describe_broken(result: InvariantResult) -> Iterator[str]:
    """What a rule found, with examples; those of the comparison stand by their places."""
    if result.error is not None:
        yield f"{result.invariant.id}: not evaluated: {result.error.splitlines()[0]}"
    elif result.invariant.stage != "verify":
        yield f"{result.invariant.id}: {pluralize(result.violations or 0, 'violation')}. {result.invariant.sentence}"
        for row in result.sample[: limits.SHOWN_ROWS]:
            yield "  " + ", ".join(f"{column} {value}" for column, value in row.items())


@click.command()
@click.argument("pipeline")
@click.option("--select", "selected", multiple=True, metavar="ASSET", help="Only this node; may be repeated.")
def verify(pipeline: str, selected: Sequence[str]) -> None:
    """Recompute PIPELINE, compare its changelogs with the result, and judge all that it has committed."""
    from rivermeet.assets.epoch.verify import record
    from rivermeet.assets.epoch.verify import verify as compare
    from rivermeet.assets.refused.states import find_lost

    project = project_here()
    declared = project.pipeline(pipeline)
    nodes = [declared.node(name) for name in selected] or list(declared.stored)
    good = True
    for node in nodes:
        start = time.monotonic()
        found = compare(project.context(declared), node)
        if found is None:
            echo(f"  {node.name:<24} not materialised yet")
            continue
        record(project, found, time.monotonic() - start)
        good = good and found.holds
        parts = []
        if found.rows is not None:
            parts.append(f"{pluralize(found.rows, 'row')} computed again, {found.differing:,} differing")
        if found.table_differs is not None:
            parts.append(f"table differs from its fold in {pluralize(found.table_differs, 'row')}")
        echo(f"  {node.name:<24} epoch {found.epoch}: {'; '.join(parts) or 'nothing to compare'}")
        for row in found.first[: limits.SHOWN_ROWS]:
            place = f"partition {row['partition']}, offset {row['offset']}"
            echo(f"    {place}: committed {row['committed']}, computed again {row['recomputed']}")
        for result in found.broken:
            for line in _describe_broken(result):
                echo(f"    {line}")
        for dropped in find_lost(project.context(declared), node) if found.differing else ():
            echo(f"    epoch {dropped.held.epoch} was {dropped.summary}: its rows are not in the changelog")
    if not good:
        sys.exit(1)
