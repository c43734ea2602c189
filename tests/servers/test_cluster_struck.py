"""Executors, workers and drivers that are killed in the middle of an epoch: the same rows, once each.

Those who compute share nothing with the run but the store: tables and files lie on S3, and where the tests are root's,
master, workers and executors are another user's, who may not read what root's processes write on the disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import obstore
import pytest
from obstore.store import from_url

from rivermeet.infra.engine.processes import spawn
from rivermeet.infra.settings import Settings
from tests.infra.epochs.test_two_at_once import SELECT, Shop, ended
from tests.reliability import survived
from tests.servers import cluster as clusters
from tests.servers.cluster import Cluster
from tests.servers.ports import free_port

pytestmark = [pytest.mark.prove, pytest.mark.timeout(3600)]

JOIN = "priced_purchases"
POINTS = ("planned", "computed", "sides-written", "committed")
OTHER = "nobody"


class OfAnother(Cluster):
    """A cluster whose folder another user owns."""

    def _write_conf(self) -> None:
        super()._write_conf()
        subprocess.run(["chown", "-R", OTHER, str(self.folder)], check=True)


@pytest.fixture
def cluster(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Started once the environment has the store's credentials: executors inherit them from their worker."""
    made = Cluster(free_port())
    if os.geteuid() == 0:
        made = OfAnother(made.port)
        as_another = ("setpriv", f"--reuid={OTHER}", "--clear-groups")

        def spawned(command: Sequence[str], *where: Path) -> subprocess.Popen[bytes]:
            return spawn([*as_another, *command], *where)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(clusters, "spawn", spawned)
    try:
        assert made.start()
        monkeypatch.setenv("SPARK_CONF_DIR", made.environ["SPARK_CONF_DIR"])
        yield made
    finally:
        made.stop()
        shutil.rmtree(made.folder)


class Apart(Shop):
    """Its files, too, are in the store; they are made on the run's own disk and put there."""

    def deliver(self) -> None:
        here = self.settings
        store = from_url(here.data)
        with_files = Shop(replace(here, data=str(here.home / "made")), self.delivered)
        with_files.deliver()
        self.delivered = with_files.delivered
        there = {found["path"] for found in obstore.list(store).collect()}
        for file in (here.home / "made").rglob("*.jsonl"):
            if (name := str(file.relative_to(here.home / "made"))) not in there:
                obstore.put(store, name, file.read_bytes())


@pytest.fixture
def shop(s3: str, cluster: Cluster, tmp_path: Path) -> Iterator[Apart]:
    env = {
        "RIVERMEET_HOME": str(tmp_path / "home"),
        "RIVERMEET_TABLES": s3,
        "RIVERMEET_DATA": f"{s3}-in",
        "RIVERMEET_ENGINE": cluster.engine,
        "RIVERMEET_ENGINE_MEMORY": "1g",
    }
    made = Apart(Settings.from_env(env))
    made.deliver()
    ended(made.run())
    yield made
    made.end()


def struck(shop: Shop, cluster: Cluster, what: str, point: str) -> tuple[int, str]:
    """The code and the errors of a run at whose point something was killed."""
    file = shop.settings.home / "struck"
    file.write_text(" ".join([what, *(str(worker.pid) for worker in cluster.recorded()[1:])]))
    module = ("-m", "tests.servers.struck", f"{point}:{JOIN}", str(file))
    run = shop.start(sys.executable, *module, "run", "invoice", *SELECT)
    out, err = run.communicate(timeout=900)
    expected = {"executor": 1, "worker": 2}[what]
    assert f"struck: {expected}" in err, out + err
    return run.returncode, err


def test_an_executor_is_lost(shop: Apart, cluster: Cluster) -> None:
    """The run goes on with what the others have or make again; where that cannot be, the next run does."""
    for point in POINTS:
        shop.deliver()
        code, err = struck(shop, cluster, "executor", point)
        if code:
            assert "Traceback" not in err, err
            ended(shop.run())
        shop.check()
        survived(f"a cluster's executor killed, {point}", "the rows of an undisturbed run, by this one or the next")


def test_a_worker_is_lost(shop: Apart, cluster: Cluster) -> None:
    """One machine is left; then the cluster is restarted, and the next epoch has both."""
    for point in ("planned", "sides-written"):
        shop.deliver()
        code, err = struck(shop, cluster, "worker", point)
        if code:
            assert "Traceback" not in err, err
            ended(shop.run())
        shop.check()
        assert not cluster.runs and cluster.start()
        survived(f"a cluster's worker killed, {point}", "the rows of an undisturbed run, by this one or the next")


def test_the_driver_is_lost(shop: Apart) -> None:
    """It is the run's own process; the next run has a new one."""
    for point in POINTS:
        shop.deliver()
        shop.kill_at(point, seconds=900)
        ended(shop.run())
        shop.check()
        survived(f"a cluster's driver killed, {point}", "the next run makes the rows of an undisturbed one")
