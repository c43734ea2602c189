"""Runs whose process is gone: closed, and said so, for Dagster itself counts them as running for ever.

A process that executes a run holds the lock of a file, which the run's tag names, and the system gives the lock back
however the process ends.

| the file of an unfinished run | the run |
|---|---|
| is locked | is going on |
| is free, and was made on this host | is closed: its process is gone |
| is free, and was made on another host, whose locks may not be seen here | is left alone, and named |
| is not there | is left alone: a process that has not begun, or none that says so |

A process's number or a time would not do: numbers are given again, also at each start of a container, and clocks are
set. A host is known by its name, or by what its system drew at its start, where containers share that.
Held by ``tests/assets/defs/test_processes.py``.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

from rivermeet.infra.held_file import HeldFile, hold_file, read_left_file

PROCESS = "rivermeet/process"
"""Tag of a run: the file that its process has locked."""
CLOSED = "rivermeet/closed"
"""Tag of a run that was closed after its process: why."""
UNFINISHED = (
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
ENDS_WITHIN = 1.0
"""Seconds in which a run that has given its lock back notes that it has ended."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def hold_process(instance: dg.DagsterInstance) -> HeldFile:
    """Take a lock for a run, whose tag `PROCESS` is then the name of the file.

    What gives it back leaves the file, which the first process that finds its run ended removes.
    """
    folder = processes(Path(instance.root_directory))
    folder.mkdir(parents=True, exist_ok=True)
    return hold_file(folder, json.dumps({"pid": os.getpid(), **_host()}))


def processes(dagster_home: Path) -> Path:
    """The folder of those files."""
    return dagster_home / "processes"


def is_held_here(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether this process has locked the file that the run names, which a copied tag does not."""
    name = run.tags.get(PROCESS, "")
    return name.startswith(f"{os.getpid()}-") and (processes(Path(instance.root_directory)) / name).exists()


def close_runs_of_the_dead(instance: dg.DagsterInstance) -> list[str]:
    """Close unfinished runs whose process is gone; a line for each, and for each that another host may still run."""
    folder, said = processes(Path(instance.root_directory)), []
    if not folder.is_dir():
        return said
    elsewhere = set()
    for run in instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED))):
        found = _find_left_by(instance, run)
        if found is None:
            continue
        if not _is_this_host(found):
            elsewhere.add(run.tags[PROCESS])
            said.append(
                f"run {run.run_id[:8]} was started on {found['host']}, and this is another host: it is left alone. "
                f"If that host is no more, end the run in Dagster"
            )
            continue
        message = _say_gone(found)
        if run.status is dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, message)
        else:
            instance.report_run_failed(run, message)
        instance.add_run_tags(run.run_id, {CLOSED: f"process {found['pid']} is gone"})
        said.append(f"run {run.run_id[:8]} is closed: {message}")
    for file in folder.iterdir():
        if file.name not in elsewhere and _read_left(file) is not None:
            file.unlink(missing_ok=True)
    return said


class Launcher(dg.DefaultRunLauncher):
    """Dagster's own, and Dagster's daemon asks it whether the process of a run is still there."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """It can be asked."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether the run's process is still there, as far as this host can know."""
        found = _find_left_by(self._instance, run)
        if found is None or not _is_this_host(found):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.FAILED, _say_gone(found))


def _find_left_by(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Mapping[str, Any] | None:
    """What the process of an unfinished run has left, if it is gone."""
    if PROCESS not in run.tags:
        return None
    found = _read_left(processes(Path(instance.root_directory)) / run.tags[PROCESS])
    if found is not None:
        time.sleep(ENDS_WITHIN)
        now = instance.get_run_by_id(run.run_id)
        return None if now is None or now.is_finished else found
    return None


def _say_gone(found: Mapping[str, Any]) -> str:
    return (
        f"its process {found['pid']} on {found['host']} is gone, killed or with its machine. "
        "What it had not committed, the next run does again"
    )


def _read_left(file: Path) -> Mapping[str, Any] | None:
    """What a process that is gone has left in its file; None where it has not gone, or has left none."""
    noted = read_left_file(file)
    with suppress(ValueError):
        return json.loads(noted or "")
    return None


def _host() -> dict[str, str]:
    return {"host": socket.gethostname(), "boot": _BOOT.read_text().strip() if _BOOT.exists() else ""}


def _is_this_host(found: Mapping[str, Any]) -> bool:
    here = _host()
    return found["host"] == here["host"] or (bool(here["boot"]) and found["boot"] == here["boot"])
