"""Dagster around a warm step: from the launch in its UI to green, less what the step itself says it took.

    python -m benchmarks.launch

`rivermeet ui` is started in a home of its own with the invoice pipeline's first delivery. Each launch is one step, the
products' source, asked for as the page asks for it; the first starts the engine and is not counted. ``attach`` is what
a new process needs until the warm engine has answered it once, with its imports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

import dagster as dg
import psutil
from dagster_graphql import DagsterGraphQLClient, DagsterGraphQLClientError

from rivermeet.assets.cli.show.rows import table
from rivermeet.assets.demo.feeds import feed, steps
from rivermeet.infra.engine import warm as engine
from rivermeet.infra.engine.processes import Apart, end
from rivermeet.infra.settings import Settings
from tests.servers.ports import free_ports

ASSETS = ("products_changelog", "products_table")
LIMIT_S = 300
ATTACH = """
import time; start = time.monotonic()
from rivermeet.infra.engine.session import session
from rivermeet.infra.settings import Settings
from tests.servers.ports import free_ports
session(Settings.from_env()).sql("SELECT 1").collect()
print(time.monotonic() - start)
"""


@contextmanager
def page(settings: Settings, port: int) -> Iterator[DagsterGraphQLClient]:
    """Dagster's page and daemon for as long as the block lasts."""
    program = str(Path(sys.executable).with_name("rivermeet"))
    environment = os.environ | settings.environ() | {"DAGSTER_HOME": str(settings.dagster_home)}
    with (settings.home / "ui.log").open("w") as log:
        process = subprocess.Popen([program, "ui", "--port", str(port)], env=environment, stdout=log, stderr=log)
    try:
        yield _client(port)
    finally:
        started = psutil.Process(process.pid).children(recursive=True)
        end([Apart.of(one.pid) for one in (psutil.Process(process.pid), *started)])


def _client(port: int) -> DagsterGraphQLClient:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            client = DagsterGraphQLClient("127.0.0.1", port_number=port)
            client.reload_repository_location("rivermeet")
        except (DagsterGraphQLClientError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return client


def launch(client: DagsterGraphQLClient, instance: dg.DagsterInstance) -> tuple[float, float]:
    """One run: seconds from launch to green, and those of its step alone."""
    start = time.time()
    keys = [dg.AssetKey(["invoice", name]) for name in ASSETS]
    run_id = client.submit_job_execution("__ASSET_JOB", repository_location_name="rivermeet", asset_selection=keys)
    while not (run := instance.get_run_by_id(run_id)) or not run.is_finished:
        if time.time() - start > LIMIT_S:
            raise TimeoutError(f"run {run_id} was not done after {LIMIT_S} s")
        time.sleep(0.1)
    record = instance.get_run_record_by_id(run_id)
    assert run.is_success and record is not None and record.end_time is not None, run
    made = instance.fetch_materializations(keys[0], limit=1).records[0].asset_materialization
    assert made is not None
    inside = sum(float(str(v.value)) for name, v in made.metadata.items() if name.startswith("seconds_"))
    return record.end_time - start, inside


def main() -> None:
    """Launch, measure, print."""
    home = Settings.from_env().home / "bench" / "launch"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    port, reports = free_ports(2)
    given = {"RIVERMEET_HOME": str(home), "RIVERMEET_REPORTS_PORT": str(reports)}
    settings = replace(Settings.from_env(os.environ | given), tables=str(home / "tables"), data=str(home / "data"))
    found: list[tuple[float, float]] = []
    attached: list[float] = []
    try:
        with page(settings, port) as client, dg.DagsterInstance.from_config(str(settings.dagster_home)) as instance:
            for step in range(1, steps("invoice") + 1):
                feed("invoice", Path(settings.data), step)
                found.append(launch(client, instance))
        for _ in range(3):
            environment = os.environ | settings.environ()
            ran = subprocess.run([sys.executable, "-c", ATTACH], env=environment, capture_output=True, check=True)
            attached.append(float(ran.stdout.split()[-1]))
    finally:
        engine.stop(settings)
    rows = [[f"{whole:.1f}", f"{inside:.1f}", f"{whole - inside:.1f}"] for whole, inside in found]
    print(table(["launch to green, s", "the step, s", "Dagster, s"], rows))
    print(f"attaching to the warm engine, imports included: {median(attached):.1f} s")


if __name__ == "__main__":
    main()
