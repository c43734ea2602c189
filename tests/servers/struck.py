"""A run at whose POINT of NODE one process of a cluster is killed, and that then goes on as it can.

    python -m tests.servers.struck POINT:NODE PID-FILE COMMAND…

``executor`` or ``worker``, the first word in PID-FILE, says which; the others are the numbers of the workers. COMMAND
is what `rivermeet` is given. How many were killed is printed to standard error.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from rivermeet.assets.cli.main import main
from rivermeet.infra import crash

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def executors(workers: list[int]) -> list[psutil.Process]:
    """Those that the workers have started."""
    below = (child for worker in workers for child in psutil.Process(worker).children(recursive=True))
    return [child for child in below if _executes(child)]


def _executes(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # One of the run before may be ending.
        return EXECUTOR in process.cmdline()
    return False


def strike(what: str, workers: list[int]) -> None:
    """Kill one: an executor alone, or a worker with its executor, as a machine that is lost."""
    struck = executors(workers[:1] if what == "worker" else workers)
    doomed = [*struck[:1], *([psutil.Process(workers[0])] if what == "worker" else [])]
    for process in doomed:
        process.send_signal(signal.SIGKILL)
    print(f"struck: {len(doomed)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    where, (what, *workers), sys.argv = sys.argv[1], Path(sys.argv[2]).read_text().split(), sys.argv[2:]
    plain = crash.crash_at

    def reached(point: str, node: str) -> None:
        """As in the project, but for the one place."""
        if f"{point}:{node}" == where:
            strike(what, [int(worker) for worker in workers])
        plain(point, node)

    crash.crash_at = reached
    os.environ.pop(crash.SETTING, None)
    main()
