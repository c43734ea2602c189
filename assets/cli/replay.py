"""``rivermeet replay`` and ``rivermeet explain``: the semantics, tried and explained."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import click

from rivermeet.assets.cli.terminal import echo, project_here, standard_json
from rivermeet.infra.settings import Settings
from rivermeet.pipelines.family import compare_profiles, explain_refusal, rules_of
from rivermeet.pipelines.joins import Semantics
from rivermeet.pipelines.plural import pluralize

PROFILE = click.Choice(get_args(Semantics))


@click.command()
@click.argument("cases", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File for the results.")
@click.option(
    "--epochs", type=click.IntRange(1), help="Cut every case into that many epochs of the real commit protocol."
)
@click.option("--semantics", type=PROFILE, default="3.1", show_default=True, help="Profile of cases that name none.")
@click.option("--compare", type=PROFILE, help="Print the rows that differ from this profile's.")
@click.option("--reference", is_flag=True, help="Answer by the reference joins in plain Python: no engine, no Java.")
def replay(
    cases: Path, output: Path | None, epochs: int | None, semantics: str, compare: str | None, reference: bool
) -> None:
    """Run joins on the hand-written records of CASES, a JSON file; print or write their rows as JSON."""
    from rivermeet.assets.replay.by_reference import by_reference
    from rivermeet.assets.replay.cases import parse

    if reference and epochs:
        raise click.UsageError("--epochs goes through the engine, and --reference without it; leave one of them out")
    try:
        given = parse(cases.read_bytes())
    except ValueError as error:
        raise click.BadParameter(f"{cases} is {error}", param_hint="CASES") from None
    run = by_reference if reference else _by_engine(epochs)
    results = run(given, semantics)
    if output is not None:
        output.write_text(_json(results), "utf-8")
    if compare is not None:
        others = [{**case, "semantics": compare} if isinstance(case, dict) else case for case in given]
        differ = 0
        for first, second in zip(results, run(others, compare), strict=True):
            lines = compare_rows(first, second)
            differ += bool(lines)
            if lines:
                echo("\n".join([f"{first['name']}", *(f"  {line}" for line in lines)]))
        compared = pluralize(len(results), "case")
        echo(f"{differ} of {compared} with a difference from {compare} (-: only here, +: only there)")
    elif output is None:
        echo(_json(results).rstrip("\n"))
    errors = sum("error" in result for result in results)
    echo(f"{pluralize(len(results), 'case')}, {errors} with errors", err=True)


def _by_engine(epochs: int | None) -> Callable[[list[Any], str], list[dict[str, Any]]]:
    from rivermeet.assets.replay.epochs import in_epochs
    from rivermeet.assets.replay.run import at_once, replay
    from rivermeet.infra.engine.session import session

    spark = session(Settings.from_env())
    return lambda given, semantics: replay(spark, given, semantics, in_epochs(epochs) if epochs else at_once)


@click.command()
@click.argument("pipeline")
@click.argument("node")
@click.option("--semantics", type=PROFILE, help="Profile to follow; default: the declared one.")
@click.option("--compare", type=PROFILE, help="Show only where this profile differs from it.")
def explain(pipeline: str, node: str, semantics: str | None, compare: str | None) -> None:
    """Explain what the join NODE of PIPELINE does, and where another profile differs."""
    join = project_here().pipeline(pipeline).node(node).join_spec
    if join is None:
        raise click.ClickException(f"{pipeline}.{node} is not a join; only joins have profiles")
    one = semantics or join.semantics
    echo(f"{pipeline}.{node}: {join.description}")
    for profile in filter(None, (one, compare)):
        problem = explain_refusal(join, profile)
        if problem is not None:
            raise click.ClickException(problem)
    if compare is None:
        for rule in rules_of(join):
            echo(f"\n{rule.asks}\n  {one}: {rule.says[one]}")
        return
    found = compare_profiles(join, one, compare)
    for asks, first, second in found:
        echo(f"\n{asks}\n  {one}: {first}\n  {compare}: {second}")
    if not found:
        echo(f"\n{one} and {compare} give the same rows for this join.")


def _json(results: list[dict[str, object]]) -> str:
    lines = (standard_json(json.dumps(result, ensure_ascii=False)) for result in results)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def compare_rows(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Rows that only one of two answers to a case has, as lines; an error stands for all rows."""
    one, other = (Counter(_lines(answer)) for answer in (first, second))
    return [f"- {line}" for line in (one - other).elements()] + [f"+ {line}" for line in (other - one).elements()]


def _lines(answer: Mapping[str, Any]) -> list[str]:
    if "error" in answer:
        return [f"error: {answer['error']}"]
    return [
        f"in {row['in']}  {json.dumps(row['key'])}: {json.dumps(row['value'])} @{row['ts']}" for row in answer["output"]
    ]
