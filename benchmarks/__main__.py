"""``make bench``: the workloads as pipelines, phase by phase, beside what users would pick instead.

    python -m benchmarks [fk|ss|st …] [--left N] [--right N] [--epochs N] [--no-peers]

A first small run warms the engine and is not printed. No time is printed for an answer that is not the seeded one's
known checksum, where that is known, or DuckDB's. Lines of JSON are added to ``bench/results.jsonl`` in the home.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from assets.bench import PHASES, measured
from assets.bench_workloads import WORKLOADS
from assets.show import table
from benchmarks.data import Size, write
from benchmarks.side_by_side import peers, shown
from infra.settings import Settings

WARM_UP = Size(left=20_000, right=2_000, epochs=3, changes=2_000)
CHECKED = ("audit", "checks")
KNOWN = {
    ("fk", Size()): (987_460, 27217525616),
    ("ss", Size()): (601_224, 10320770309903392),
    ("st", Size()): (980_399, 244449220369),
}
"""Rows and checksum: DuckDB, Polars and delta-rs agree on them."""


def phases(line: dict[str, Any]) -> str:
    """A table of seconds: the first epoch, and the middle of those after it."""
    first, *later = line["epochs"]
    names = ("ingest", *PHASES, "checks")
    middle = {name: statistics.median(epoch.get(name, 0.0) for epoch in later) for name in names}
    rows = [[name, f"{first.get(name, 0.0):.2f}", f"{middle[name]:.2f}"] for name in names]
    checks = sum(middle[name] for name in CHECKED)
    rest = sum(middle[name] for name in PHASES) - middle["audit"]
    return (
        f"{line['workload']}: {line['rows_in']:,} records, {line['final_rows']:,} rows, checksum {line['checksum']}\n"
        f"{table(['seconds', 'first epoch', 'an epoch'], rows)}\n"
        f"all checks (audit and checks) take {checks / rest:.2f} of the rest of the epoch"
    )


@click.command()
@click.argument("workloads", nargs=-1, type=click.Choice(sorted(WORKLOADS)))
@click.option("--left", default=Size().left, show_default=True, help="Orders, or records a side.")
@click.option("--right", default=Size().right, show_default=True, help="Customers, or keys.")
@click.option("--epochs", default=Size().epochs, show_default=True)
@click.option("--peers/--no-peers", "beside", default=True, help="Run the others as well.")
def main(workloads: tuple[str, ...], left: int, right: int, epochs: int, beside: bool) -> None:
    """Warm up, measure, check the answers, print."""
    settings, size = Settings.from_env(), Size(left=left, right=right, epochs=epochs)
    results = settings.home / "bench" / "results.jsonl"
    for workload in workloads or sorted(WORKLOADS):
        with tempfile.TemporaryDirectory() as folder:
            warm, data = Path(folder) / "warm", Path(folder) / "data"
            write(workload, warm, replace(WARM_UP, epochs=3))
            write(workload, data, size)
            measured(WORKLOADS[workload](), warm, settings)
            line = measured(WORKLOADS[workload](), data, settings) | {"size": vars(size)}
            known = KNOWN.get((workload, size))
            if known is not None and (line["final_rows"], line["checksum"]) != known:
                sys.exit(f"{workload}: {line['final_rows']} rows, checksum {line['checksum']}; must be {known}")
            others = list(peers(workload, data)) if beside else []
        results.parent.mkdir(parents=True, exist_ok=True)
        with results.open("a") as lines:
            at = {"at": int(time.time())}
            lines.writelines(json.dumps({**one, **at}) + "\n" for one in ({"peer": "Rivermeet", **line}, *others))
        print(phases(line), shown(line, others), sep="\n\n", end="\n\n")


if __name__ == "__main__":
    main()
