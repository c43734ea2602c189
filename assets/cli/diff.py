"""`rivermeet diff`: what a change of declarations would do, before it is deployed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from fractions import Fraction

import click

from rivermeet.assets.cli.heal import milliseconds
from rivermeet.assets.cli.replay import PROFILE
from rivermeet.assets.cli.terminal import echo, project_here
from rivermeet.assets.diff.options import Options
from rivermeet.pipelines.window import duration_ms


def _window(_: click.Context, option: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    try:
        before, after = (duration_ms(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no window: give BEFORE,AFTER, such as 0s,2h", param=option) from None
    return before, after


def _share(_: click.Context, option: click.Parameter, text: str | None) -> Fraction | None:
    try:
        found = None if text is None else Fraction(text)
    except (ValueError, ZeroDivisionError):
        found = Fraction(0)
    if found is not None and not 0 < found <= 1:
        raise click.BadParameter(f"{text!r} is no share: give a fraction of 1, such as 1/16", param=option)
    return found


@click.command()
@click.argument("pipeline")
@click.option("--select", "selected", multiple=True, metavar="ASSET", help="Try options at this node; may be repeated.")
@click.option("--semantics", type=PROFILE, help="Try this profile.")
@click.option("--grace", metavar="DURATION", callback=milliseconds, help="Try this grace, such as 10m.")
@click.option("--window", metavar="BEFORE,AFTER", callback=_window, help="Try this window, such as 0s,2h.")
@click.option("--share", metavar="SHARE", callback=_share, help="Of the keys, such as 1/16: whole partitions of them.")
@click.option("--examples", type=click.IntRange(0), default=10, show_default=True, help="Rows shown of each node.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each node.")
def diff(
    pipeline: str,
    selected: Sequence[str],
    semantics: str | None,
    grace: int | None,
    window: tuple[int, int] | None,
    share: Fraction | None,
    examples: int,
    as_json: bool,
) -> None:
    """Compute what PIPELINE's changed nodes and those below would have, and compare it with what they have.

    Changed is what is declared otherwise than when its rows were made; an option is tried without an edit. Nothing that
    stands is written. The exit status is 1 where a row would come, go or change.
    """
    from rivermeet.assets.diff.compare import compare
    from rivermeet.assets.diff.compute import compute_changed, find_changed, samples
    from rivermeet.assets.sql.query import CommittedState

    project = project_here()
    declared = project.pipeline(pipeline)
    for name in selected:
        declared.node(name)
    options = Options(semantics, grace, window)
    wanted = options.apply(declared, selected) if options else declared
    context, own = project.context(declared), project.settings
    changed = find_changed(context, wanted)
    if not changed:
        echo(f"{pipeline}: nothing is declared otherwise than when its rows were made")
        return
    stands, differs = project.committed, False
    affected = wanted.downstream(changed)
    some = {} if share is None else samples(context, affected, share)
    with compute_changed(context, wanted, changed, some) as scratch:
        would_be = CommittedState(scratch.tables, project.quality.table)
        for node in affected:
            sample = some.get(node.name)
            among = None if sample is None else sample.partitions
            found = compare(node, stands, would_be, own.judge_memory, own.spill, examples, among)
            differs = differs or found.differs
            if as_json:
                shown = [vars(example) for example in found.examples]
                of = {} if share is None else {"partitions": among}
                echo(json.dumps({"node": node.name, **found.counts, "stay": found.stays, **of, "examples": shown}))
                continue
            counts = ", ".join(f"{kind} {count:,}" for kind, count in found.counts.items())
            where = "" if node in changed else " (below)"
            where += "" if share is None else f" ({sample or 'all keys'})"
            echo(f"  {node.name:<24} would {counts}, stay {found.stays:,}{where}")
            for example in found.examples:
                echo(f"    {example.kind:<6} {example.key}: {example.stands or '-'} -> {example.would_be or '-'}")
    if differs:
        sys.exit(1)
