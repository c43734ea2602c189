"""What a scheduled run of ten small nodes costs beside another pipeline's backlog, on one engine.

    python -m benchmarks.neighbours [--left N] [--runs N]

| row | is |
|---|---|
| ten small nodes | a run of ``benchmarks.chain`` with 100 new records in each source: seconds of its process |
| the backlog | ``rivermeet bench fk`` of one epoch: seconds from files to judged changelogs of its three nodes |

Each is measured alone, on the warm engine, and beside the other: small runs follow one another until the backlog is
done, and those that ended before it are counted. A small run that waited for all of the backlog would take as long as
that; none may. Memory is the most that the backlog's process and the engine had resident. A line of JSON is added to
``bench/neighbours.jsonl`` in the home.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click

from benchmarks.chain import ROOT, Records, run_in_a_process
from benchmarks.stored import results_file, store
from rivermeet.assets.cli.show.rows import table
from rivermeet.infra.settings import Settings


def backlog(data: Path, engine: Settings) -> subprocess.Popen[str]:
    """Start the backlog in a process of its own."""
    program = str(Path(sys.executable).with_name("rivermeet"))
    command = [program, "bench", "fk", "--data", str(data), "--epochs", "1"]
    return subprocess.Popen(command, env=os.environ | engine.environ(), stdout=subprocess.PIPE, text=True)


def answer(started: subprocess.Popen[str]) -> Mapping[str, Any]:
    """Wait for it, and return its line."""
    said, _ = started.communicate()
    if started.returncode:
        raise click.ClickException(f"the backlog ended with {started.returncode}")
    return json.loads(said.splitlines()[-1])


def measure(settings: Settings, left: int, runs: int) -> dict[str, Any]:
    """Seconds of both, alone and side by side, and the backlog's memory."""
    with TemporaryDirectory(prefix="rivermeet-neighbours-") as folder:
        data, home = Path(folder, "records"), Path(folder, "home")
        make = [sys.executable, "-m", "benchmarks.data", "fk", str(data), "--epochs", "0", "--left", str(left)]
        subprocess.run([*make, "--right", str(left // 10)], check=True, stdout=subprocess.DEVNULL)
        own = replace(settings, home=home, tables=str(home / "tables"), data=str(home / "data"))
        records, runs_so_far = Records(100), count()

        def run_small() -> float:
            records.deliver(next(runs_so_far), home / "data")
            return run_in_a_process(own, settings, ROOT)["whole"]

        for _ in range(2):
            run_small()
        answer(backlog(data, settings))
        alone = [run_small() for _ in range(runs)]
        one = answer(backlog(data, settings))
        started, beside = backlog(data, settings), list[float]()
        while True:
            took = run_small()
            if started.poll() is not None:
                break
            beside.append(took)
        two = answer(started)
    if (one["final_rows"], one["checksum"]) != (two["final_rows"], two["checksum"]):
        raise click.ClickException("the backlog's answers differ: no time is printed")
    return {
        "left": left,
        "small": {"alone": alone, "beside": beside},
        "backlog": {"alone": one["epochs"][0]["committed"], "beside": two["epochs"][0]["committed"]},
        "peak_rss_mb": {"alone": one["peak_rss_mb"], "beside": two["peak_rss_mb"]},
    }


@click.command()
@click.option("--left", type=click.IntRange(10), default=1_000_000, show_default=True, help="Orders of the backlog.")
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True, help="Small runs alone.")
def main(left: int, runs: int) -> None:
    """Run ten small nodes and a backlog, each alone and then side by side."""
    settings = Settings.from_env()
    found = measure(settings, left, runs)
    small, large = found["small"], found["backlog"]
    if not small["beside"]:
        raise click.ClickException("no small run ended before the backlog: it was starved, or the backlog too short")
    lines = [
        ("ten small nodes, middle", median(small["alone"]), median(small["beside"])),
        ("ten small nodes, longest", max(small["alone"]), max(small["beside"])),
        ("the backlog", large["alone"], large["beside"]),
    ]
    shown = [[what, f"{alone:.1f}", f"{beside:.1f}", f"{beside / alone:.2f}"] for what, alone, beside in lines]
    click.echo(table(["seconds", "alone", "beside the other", "ratio"], shown))
    memory = found["peak_rss_mb"]
    click.echo(f"{len(small['beside'])} small runs beside it; memory {memory['alone']} MB, then {memory['beside']} MB")
    store(results_file(settings, "neighbours"), [found])


if __name__ == "__main__":
    main()
