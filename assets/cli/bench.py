"""``rivermeet bench``: a workload run as a pipeline, and one line of JSON about it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rivermeet.assets.bench.workloads import PARTITIONS, WORKLOADS
from rivermeet.infra.settings import Settings


@click.command()
@click.argument("workload", type=click.Choice(sorted(WORKLOADS)))
@click.option(
    "--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of its files."
)
@click.option("--epochs", type=click.IntRange(1), help="Cut all records into so many epochs; default: one per file.")
@click.option("--cache", is_flag=True, help='Net changes only (cache="epoch"), where the join is one of tables.')
@click.option("--partitions", type=click.IntRange(1), default=PARTITIONS, show_default=True, help="Of each source.")
def bench(workload: str, data: Path, epochs: int | None, cache: bool, partitions: int) -> None:
    """Run WORKLOAD (fk, ss, st) as a pipeline and print its times and its answer as one JSON line."""
    from rivermeet.assets.bench.run import measure

    made = WORKLOADS[workload](cache, partitions)
    click.echo(json.dumps(measure(made, data, Settings.from_env(), epochs)))
