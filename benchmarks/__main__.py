"""``make bench``: an epoch of 10,000 changes on a million orders, phase by phase, beside the checks of its result.

Lines of JSON are added to ``bench/results.jsonl`` in the home. A first small run warms the engine and is not printed.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from assets.bench import PHASES, measured
from assets.bench_workloads import WORKLOADS
from assets.show import table
from benchmarks.data import Size, write
from infra.settings import Settings

WARM_UP = Size(left=20_000, right=2_000, epochs=3, changes=2_000)
CHECKED = ("audit", "checks")


def run(workload: str, size: Size, settings: Settings) -> dict[str, Any]:
    """One measured run on fresh data."""
    with tempfile.TemporaryDirectory() as folder:
        write(workload, Path(folder), size)
        return {"size": vars(size), **measured(WORKLOADS[workload](), Path(folder), settings)}


def shown(line: dict[str, Any]) -> str:
    """A table of seconds: the backlog, and the middle of the epochs after it."""
    first, *later = line["epochs"]
    names = ("ingest", *PHASES, "checks")
    middle = {name: statistics.median(epoch.get(name, 0.0) for epoch in later) for name in names}
    rows = [[name, f"{first.get(name, 0.0):.2f}", f"{middle[name]:.2f}"] for name in names]
    checks = sum(middle[name] for name in CHECKED)
    rest = sum(middle[name] for name in PHASES) - middle["audit"]
    return (
        f"{line['workload']}: {line['rows_in']:,} records, {line['final_rows']:,} rows, checksum {line['checksum']}\n"
        f"{table(['seconds', 'backlog', 'an epoch'], rows)}\n"
        f"all checks (audit and checks) take {checks / rest:.2f} of the rest of the epoch"
    )


def main() -> None:
    """Warm up, measure, print."""
    settings = Settings.from_env()
    run("fk", WARM_UP, settings)
    results = settings.home / "bench" / "results.jsonl"
    for workload in ("fk",):
        line = run(workload, Size(), settings)
        with results.open("a") as lines:
            lines.write(json.dumps(line) + "\n")
        print(shown(line))


if __name__ == "__main__":
    main()
