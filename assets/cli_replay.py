"""``rivermeet replay`` and ``rivermeet explain``: the semantics, tried and told."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import get_args

import click

from assets.errors import one_line_errors
from pipelines.joins import Semantics

PROFILE = click.Choice(get_args(Semantics))


@click.command()
@click.argument("cases", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File for the results.")
@click.option("--epochs", type=click.IntRange(1), help="Cut every case into so many epochs of the real machinery.")
@click.option("--semantics", type=PROFILE, default="3.1", show_default=True, help="Profile of cases that name none.")
@click.option("--compare", type=PROFILE, help="Print the rows that differ from this profile's.")
@one_line_errors
def replay(cases: Path, output: Path | None, epochs: int | None, semantics: str, compare: str | None) -> None:
    """Run the joins on the hand-written records of CASES, a JSON file; print or write their rows as JSON."""
    from assets.replay import at_once, differing
    from assets.replay import replay as run
    from assets.replay_cases import parsed
    from assets.replay_epochs import in_epochs
    from infra.session import session
    from infra.settings import Settings

    given = parsed(cases.read_text("utf-8"))
    spark = session(Settings.from_env())
    way = in_epochs(epochs) if epochs else at_once
    results = run(spark, given, semantics, way)
    if output is not None:
        output.write_text(_json(results), "utf-8")
    if compare is not None:
        others = [{**case, "semantics": compare} if isinstance(case, dict) else case for case in given]
        differ = 0
        for first, second in zip(results, run(spark, others, compare, way), strict=True):
            lines = differing(first, second)
            differ += bool(lines)
            if lines:
                click.echo("\n".join([f"{first['name']}", *(f"  {line}" for line in lines)]))
        click.echo(f"{differ} of {len(results)} cases differ from {compare} (-: only here, +: only there)")
    elif output is None:
        sys.stdout.write(_json(results))
    errors = sum("error" in result for result in results)
    click.echo(f"{len(results)} cases, {errors} with errors", err=True)


def _json(results: list[dict[str, object]]) -> str:
    """One case a line."""
    lines = (json.dumps(result, ensure_ascii=False) for result in results)
    return "[\n" + ",\n".join(lines) + "\n]\n"
