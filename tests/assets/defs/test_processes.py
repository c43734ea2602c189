"""Runs whose process is gone are closed, and runs of anybody who may still be there are not."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from rivermeet.assets.defs import processes
from rivermeet.assets.defs.processes import CLOSED, PROCESS, Launcher, close_runs_of_the_dead, hold_process
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.defs.runs import close_runs_left, prepare_instance
from rivermeet.infra import crash
from rivermeet.infra.settings import PROJECT, Settings
from tests.assets.home import project_in
from tests.infra.epochs.killed import deliver
from tests.reliability import handled

STARTED, FAILURE, CANCELED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED
RIVERMEET = str(Path(sys.executable).with_name("rivermeet"))
GONE = "is gone, killed or with its machine. What it had not committed, the next run does again"


@dg.job
def some_job() -> None:
    pass


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral(str(tmp_path)) as made:
        yield made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "ENDS_WITHIN", 0.01)


def run_of(instance: dg.DagsterInstance, process: str, status: dg.DagsterRunStatus = STARTED) -> str:
    """A run that a process has said to execute."""
    return instance.create_run_for_job(some_job, tags={PROCESS: process}, status=status).run_id


def status_of(instance: dg.DagsterInstance, run: str) -> dg.DagsterRunStatus:
    found = instance.get_run_by_id(run)
    assert found is not None
    return found.status


def dead(instance: dg.DagsterInstance, **about: str) -> str:
    """A process that has ended, and where it ran."""
    held = hold_process(instance)
    held.file.write_text(json.dumps(json.loads(held.file.read_text()) | about))
    held.let_go()
    return held.file.name


@pytest.mark.parametrize(
    ("was", "ends"),
    [
        (dg.DagsterRunStatus.NOT_STARTED, FAILURE),
        (dg.DagsterRunStatus.STARTING, FAILURE),
        (STARTED, FAILURE),
        (dg.DagsterRunStatus.CANCELING, CANCELED),
    ],
)
def test_a_run_whose_process_is_gone_is_closed_once(
    instance: dg.DagsterInstance, was: dg.DagsterRunStatus, ends: dg.DagsterRunStatus
) -> None:
    run = run_of(instance, dead(instance), was)
    (line,) = close_runs_of_the_dead(instance)
    assert line.startswith(f"run {run[:8]} is closed: its process {os.getpid()} on ") and line.endswith(GONE)
    assert status_of(instance, run) is ends
    assert [entry.message for entry in instance.all_logs(run) if GONE in entry.message], "its page says why"
    found = instance.get_run_by_id(run)
    assert found is not None and found.tags[CLOSED] == f"process {os.getpid()} is gone"
    assert close_runs_of_the_dead(instance) == []
    assert not list(processes.processes(Path(instance.root_directory)).iterdir())


def test_a_run_that_is_going_on_is_left_alone(instance: dg.DagsterInstance) -> None:
    held = hold_process(instance)
    run = run_of(instance, held.file.name)
    assert close_runs_of_the_dead(instance) == []
    assert status_of(instance, run) is STARTED and held.file.exists()
    held.let_go()
    assert len(close_runs_of_the_dead(instance)) == 1


def test_a_run_of_a_process_that_says_nothing_is_left_alone(instance: dg.DagsterInstance) -> None:
    dead(instance)
    unknown = instance.create_run_for_job(some_job, status=STARTED).run_id
    # Executed again from the page, with the tags of a run that has ended.
    copied = run_of(instance, "1-00000000")
    assert close_runs_of_the_dead(instance) == []
    assert {status_of(instance, run) for run in (unknown, copied)} == {STARTED}


@pytest.mark.parametrize(
    ("host", "boot", "closed"),
    [
        ("elsewhere", "its own", False),
        # A container that was recreated on this machine, and this machine after it was restarted.
        ("elsewhere", "ours", True),
        ("here", "its own", True),
    ],
)
def test_hosts(instance: dg.DagsterInstance, host: str, boot: str, closed: bool) -> None:
    about = {"host": host if host == "elsewhere" else None, "boot": boot if boot != "ours" else None}
    run = run_of(instance, dead(instance, **{name: value for name, value in about.items() if value}))
    for _ in range(2):
        lines = close_runs_of_the_dead(instance)
        if not closed:
            assert lines == [
                f"run {run[:8]} was started on elsewhere, and this is another host: it is left alone. "
                "If that host is no more, end the run in Dagster"
            ]
    assert (status_of(instance, run) is FAILURE) is closed


def test_a_run_that_ends_just_then_is_left_alone(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(instance, dead(instance))

    def sleep(seconds: float) -> None:
        found = instance.get_run_by_id(run)
        assert found is not None
        instance.handle_new_event(success(instance, found))

    monkeypatch.setattr(processes.time, "sleep", sleep)
    assert close_runs_of_the_dead(instance) == []
    assert status_of(instance, run) is dg.DagsterRunStatus.SUCCESS


def success(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.EventLogEntry:
    event = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, run.job_name)
    return dg.EventLogEntry(None, 20, "", run.run_id, time.time(), job_name=run.job_name, dagster_event=event)


def test_what_dagster_launches_says_so_itself(instance: dg.DagsterInstance, settings: Settings, tmp_path: Path) -> None:
    """Also a run that was executed again from the page, and has the tags of the one before."""
    seen, project = [], project_in(tmp_path, settings)

    @dg.asset
    def one(context: dg.AssetExecutionContext, rivermeet: ProjectResource) -> None:
        found = instance.get_run_by_id(context.run.run_id)
        assert found is not None
        seen.append(found.tags[PROCESS])
        assert close_runs_of_the_dead(instance) == []

    for tags in ({}, {PROCESS: f"{os.getpid()}-00000000"}):
        resources = {"rivermeet": ProjectResource(project=project)}
        assert dg.materialize([one], resources=resources, instance=instance, tags=tags).success
    assert all(name.startswith(f"{os.getpid()}-") and name != f"{os.getpid()}-00000000" for name in seen)
    assert len(set(seen)) == 2


def test_dagster_asks_its_launcher(instance: dg.DagsterInstance) -> None:
    launcher = Launcher()
    launcher.register_instance(instance)
    held, lost = hold_process(instance), dead(instance)
    for process, status in ((held.file.name, "RUNNING"), ("1-00000000", "RUNNING"), (lost, "FAILED")):
        run = instance.get_run_by_id(run_of(instance, process))
        assert run is not None
        assert launcher.check_run_worker_health(run).status.value == status
    held.let_go()


def test_the_runs_of_killed_processes_are_closed_by_the_next_one(tmp_path: Path) -> None:
    settings = Settings.from_env({"RIVERMEET_HOME": str(tmp_path)})
    at = "2024-05-01T06:00:00Z"
    product = {"product_id": "p", "name": "product", "price": 1.5, "withdrawn": False, "at": at}
    deliver(Path(settings.data) / "invoice" / "products" / "1.jsonl", [product])
    env = os.environ | settings.environ() | {crash.SETTING: "planned"}
    for _ in range(2):
        command = [RIVERMEET, "run", "invoice", "--select", "products"]
        done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert "is closed: its process" in done.stdout and GONE in done.stdout
    (line,) = close_runs_left(settings)
    assert GONE in line
    prepare_instance(settings)
    with dg.DagsterInstance.get() as instance:
        assert [run.status for run in instance.get_runs()] == [FAILURE, FAILURE]
    assert close_runs_left(settings) == []
    handled(
        "runs",
        "kill -9 of `rivermeet run`, or the end of its machine or container",
        "the next run, `rivermeet ui` or Dagster's daemon closes its run as failed, and says why",
    )
