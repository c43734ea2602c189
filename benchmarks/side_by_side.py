"""Rivermeet and what users would pick instead, over the same records on the same cores, one after the other.

A peer that does not run here is shown as absent, with its reason. One whose answer differs is shown as wrong, with how
many rows it has too many or too few, and its times stand beside that.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.nexmark.queries import QUERIES
from benchmarks.stored import ALL_PHASES, Line
from rivermeet.assets.bench.run import PHASES
from rivermeet.assets.cli.show.rows import table

OURS, WHOLE = "Rivermeet: the join, plan to fold", "Rivermeet: from files to checked tables"


@dataclass(frozen=True)
class Peer:
    """A module of ``benchmarks.peers``, what comes before the workload on its command line, and what it can run."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ("fk", "ss", "st")


PEERS = (
    Peer("Kafka Streams, exactly once", "kafka_streams", ("eos",)),
    Peer("Kafka Streams, at least once", "kafka_streams", ("alo",)),
    Peer("DuckDB, recomputing", "duckdb_recompute", workloads=("fk", "ss", "st", *QUERIES)),
    Peer("DuckDB, incremental", "duckdb_incremental", workloads=("fk",)),
    Peer("delta-rs MERGE", "delta_rs", workloads=("fk",)),
    Peer("Spark, recomputing", "spark_recompute", workloads=("fk",)),
)
LIMIT_S = 1800


def peers(workload: str, data: Path) -> Iterator[Line]:
    """The line of every peer that has the workload; of an absent one ``peer`` and ``absent``, the reason."""
    for peer in (peer for peer in PEERS if workload in peer.workloads):
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", f"benchmarks.peers.{peer.module}", *peer.arguments]
            try:
                run = subprocess.run(
                    [*command, workload, str(data), scratch], capture_output=True, text=True, timeout=LIMIT_S
                )
            except subprocess.TimeoutExpired:
                yield {"peer": peer.name, "workload": workload, "absent": f"not done after {LIMIT_S} s"}
                continue
        if run.returncode:
            said = run.stderr.strip().splitlines() or [f"ended with {run.returncode}"]
            yield {"peer": peer.name, "workload": workload, "absent": said[-1]}
        else:
            yield json.loads(run.stdout.strip().splitlines()[-1])


def ours(line: Line) -> list[Line]:
    """Rivermeet's own line as those of two peers: the join alone, and all that is done from files to checks."""
    found = []
    for name, phases in ((OURS, PHASES), (WHOLE, ALL_PHASES)):
        seconds = [sum(epoch.get(phase, 0.0) for phase in phases) for epoch in line["epochs"]]
        # All epochs of two streams are alike; of tables the first has the base.
        later = seconds if line["workload"] == "ss" else seconds[1:]
        middle = median(later) if later else None
        found.append({**line, "peer": name, "seconds_initial": seconds[0], "seconds_per_epoch": middle})
    return found


def tabulate(line: Line, others: Sequence[Line]) -> str:
    """A table of seconds, and how many times as long as Rivermeet's join each took."""
    mine, *_ = ours(line)
    rows = [_row(one, mine) for one in (*ours(line), *others)]
    names = ["", "backlog s", "ratio", "epoch s", "ratio", "memory MB", "answer"]
    return table(names, rows)


def _row(line: Line, mine: Line) -> list[str]:
    if "absent" in line:
        return [line["peer"], "absent", "", "", "", "", line["absent"]]
    extra = line["final_rows"] - mine["final_rows"]
    exact = line["checksum"] == mine["checksum"] and not extra
    return [
        line["peer"],
        *_times(line["seconds_initial"], mine["seconds_initial"]),
        *_times(line["seconds_per_epoch"], mine["seconds_per_epoch"]),
        f"{line['peak_rss_mb']:,}",
        "exact" if exact else f"WRONG, {extra:+,} rows",
    ]


def _times(theirs: float | None, mine: float | None) -> tuple[str, str]:
    """Seconds and their ratio; nothing where all records were one epoch."""
    return (f"{theirs:.2f}", f"{theirs / mine:.2f}") if theirs and mine else ("", "")
