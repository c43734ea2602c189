"""A Spark cluster on this machine, for real: its own processes, a driver of another one, a join by its executors."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from rivermeet.infra.engine.conf import DRIVER
from rivermeet.infra.engine.process import EngineError
from rivermeet.infra.settings import PROJECT
from tests.servers.cluster import Cluster
from tests.servers.ports import free_port

slow = pytest.mark.prove
JOIN = "tests/joins/stream_stream/test_stream_stream.py::test_nasty_script_and_random_histories[left-3]"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One beside that of `make cluster`, if there is one."""
    made = Cluster(free_port())
    try:
        assert made.start() and not made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(made.folder)


def processes(cluster: Cluster) -> list[psutil.Process]:
    """The master, the workers and what they have started."""
    running = [process for one in cluster.recorded() if (process := one.find())]
    children = (child for process in running for child in process.children(recursive=True))
    return [*running, *filter(runs, children)]


def runs(process: psutil.Process) -> bool:
    """Whether it does anything: of the shell that starts Java a dead child is left, which nobody looks for."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def listening(process: psutil.Process) -> set[str]:
    """Addresses at which it listens; none if it has ended meanwhile."""
    with contextlib.suppress(psutil.NoSuchProcess):
        ports = (c.laddr for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN)
        return {address.ip.removeprefix("::ffff:") for address in ports}
    return set()


@slow
@pytest.mark.timeout(900)
def test_a_join_by_its_executors_gives_the_references_rows(cluster: Cluster, tmp_path: Path) -> None:
    """And meanwhile master, workers, executors and driver listen to this machine only."""
    env = os.environ | cluster.environ | {"RIVERMEET_ENGINE_MEMORY": "2g"}
    addresses: dict[int, set[str]] = {}
    with (tmp_path / "said").open("w+") as said:
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", JOIN], cwd=PROJECT, env=env, stdout=said, stderr=said
        )
        while run.poll() is None:
            for process in [*processes(cluster), *psutil.Process(run.pid).children(recursive=True)]:
                addresses.setdefault(process.pid, set()).update(listening(process))
            time.sleep(1)
        said.seek(0)
        output = said.read()
    assert run.returncode == 0, output
    assert "1 passed" in output
    executors = {log.parents[2].name for log in cluster.folder.glob("worker-*/app-*/*/stderr")}
    assert executors == {"worker-1", "worker-2"}
    servers = [found for found in addresses.values() if found]
    assert len(servers) >= 6, "a master, two workers, two executors and a driver"
    assert set().union(*servers) == {"127.0.0.1"}


@slow
def test_only_its_user_can_read_the_secret(cluster: Cluster) -> None:
    file = cluster.conf / "spark-defaults.conf"
    assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = re.search(r"^spark.authenticate.secret (\S{20,})$", file.read_text(), re.MULTILINE)
    assert found is not None
    said = [log.read_text() for log in cluster.folder.glob("*.log")]
    commands = [" ".join(process.cmdline()) for process in processes(cluster)]
    assert len(commands) == len(said) == 3
    assert not any(found[1] in text for text in [*commands, *said])


@slow
def test_it_stops_with_all_that_it_started(cluster: Cluster) -> None:
    running = processes(cluster)
    assert cluster.stop() and not cluster.stop()
    assert not any(map(runs, running))


def test_a_taken_port_starts_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        cluster = Cluster(taken.getsockname()[1])
        try:
            with pytest.raises(EngineError, match=rf"port {cluster.port} .*taken"):
                cluster.start()
        finally:
            shutil.rmtree(cluster.folder)


def test_the_page_has_what_a_driver_needs() -> None:
    page = (PROJECT / "docs" / "scale.md").read_text()
    (block,) = re.findall(r"^```properties\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert dict(line.split(" ") for line in block.splitlines()) == DRIVER
