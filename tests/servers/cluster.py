"""A Spark standalone cluster on this machine: a master and two workers, each a process of its own.

It is there to run on what a local engine never meets: executors that are other processes than the driver, shuffles and
broadcasts that travel between them. `make cluster` starts it, `make cluster-stop` ends it, nothing else does either.

    export RIVERMEET_ENGINE=spark://127.0.0.1:7077
    export SPARK_CONF_DIR=….cluster/7077/conf

choose it, as they choose any other cluster. The port names the cluster's folder, which holds Spark's settings for all
who take part (``spark-defaults.conf``), a secret among them, and which only its user can enter. Everything listens on
127.0.0.1, and Spark's door for jobs without a secret, the REST server, is shut. The folder lies beside the code and in
no home: the cluster is one of the machine, for all homes.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import Popen

from filelock import FileLock

from rivermeet.infra.engine.conf import LOOPBACK, few_cores
from rivermeet.infra.engine.java import JavaError, find_java
from rivermeet.infra.engine.process import EngineError, last_said
from rivermeet.infra.engine.processes import Apart, end, is_free, spawn
from rivermeet.infra.settings import PROJECT

CLUSTERS = PROJECT / ".cluster"
PORT = 7077
WORKERS = 2
CORES = 1
MEMORY = "2g"
START_SECONDS = 120.0
DOORS = {
    "spark.authenticate": "true",
    # Doors of the master that ask for no secret: jobs by HTTP, and buttons that end an application or a worker.
    "spark.master.rest.enabled": "false",
    "spark.master.ui.decommission.allow.mode": "DENY",
    "spark.ui.killEnabled": "false",
    # A master on the next port would not be the one that the engine setting names.
    "spark.port.maxRetries": "0",
}
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
_Started = tuple[str, Path, Popen[bytes]]
"""Name, log and process."""
_READY = {"master": "New state: ALIVE", "worker": "Successfully registered with master"}


@dataclass(frozen=True)
class Cluster:
    """The cluster whose master has a port of 127.0.0.1."""

    port: int = PORT

    @property
    def folder(self) -> Path:
        """All that it writes."""
        return CLUSTERS / str(self.port)

    @property
    def engine(self) -> str:
        """Of its master, as the engine setting names it."""
        return f"spark://127.0.0.1:{self.port}"

    @property
    def environ(self) -> Mapping[str, str]:
        """Environment variables that choose it."""
        return {"RIVERMEET_ENGINE": self.engine, "SPARK_CONF_DIR": str(self.conf)}

    @property
    def conf(self) -> Path:
        """Folder of Spark's settings for masters, workers and drivers."""
        return self.folder / "conf"

    @property
    def runs(self) -> bool:
        """Whether all of its processes run."""
        recorded = self.recorded()
        return len(recorded) == 1 + WORKERS and all(one.find() for one in recorded)

    def recorded(self) -> Sequence[Apart]:
        """Its processes, the master first, whether they run or not."""
        try:
            return [Apart(**one) for one in json.loads(self._state.read_text())]
        except (FileNotFoundError, ValueError, TypeError):
            return []

    def start(self) -> bool:
        """Start it, unless all of it runs.

        Returns
        -------
        bool
            Whether it had to be started.

        Raises
        ------
        EngineError
            If its port is taken, or a process of it does not start.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        with FileLock(self.folder / "start.lock"):
            if self.runs:
                return False
            self._end()
            if not is_free(self.port):
                raise EngineError(f"port {self.port} on 127.0.0.1 is taken, so that no cluster can start: free it")
            self._write_conf()
            try:
                self._wait(self._spawned("master", MASTER, "--port", str(self.port)))
                workers = [self._worker(f"worker-{n}") for n in range(1, WORKERS + 1)]
                for worker in workers:
                    self._wait(worker)
            except BaseException:
                self._end()
                raise
            return True

    def stop(self) -> bool:
        """End it; whether anything of it ran."""
        if not self.folder.is_dir():
            return False
        with FileLock(self.folder / "start.lock"):
            return self._end()

    def _worker(self, name: str) -> _Started:
        work = self.folder / name
        shutil.rmtree(work, ignore_errors=True)
        size = ("--cores", str(CORES), "--memory", MEMORY)
        return self._spawned(name, WORKER, *size, "--work-dir", str(work), self.engine)

    def _spawned(self, name: str, main: str, *arguments: str) -> _Started:
        import pyspark

        home, log = Path(pyspark.__file__).parent, self.folder / f"{name}.log"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))} | {
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(self.conf),
            # Pages of the master and the workers listen where this says, and everywhere without it.
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        command = [str(home / "bin" / "spark-class"), main, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        process = spawn(command, env, self.folder, log)
        self._state.write_text(json.dumps([asdict(one) for one in (*self.recorded(), Apart.of(process.pid))]))
        return name, log, process

    def _wait(self, started: _Started) -> None:
        name, log, process = started
        ready, deadline = _READY[name.partition("-")[0]], time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if ready in log.read_text(errors="replace"):
                return
            time.sleep(0.1)
        raise EngineError(f"the cluster's {name} did not start: {last_said(log)} (log: {log})")

    @property
    def _state(self) -> Path:
        return self.folder / "state.json"

    def _end(self) -> bool:
        ran = end(self.recorded())
        self._state.unlink(missing_ok=True)
        return ran

    def _write_conf(self) -> None:
        self.conf.mkdir(exist_ok=True)
        lines = {
            # What a process must know to take part.
            "spark.authenticate.secret": secrets.token_urlsafe(32),
            "spark.executor.memory": MEMORY,
            **DOORS,
            **LOOPBACK,
            **few_cores(WORKERS * CORES),
        }
        file = self.conf / "spark-defaults.conf"
        file.unlink(missing_ok=True)
        # Created with its final mode: there is no moment at which others could open it.
        with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out:
            out.writelines(f"{name} {value}\n" for name, value in lines.items())


def main(command: str) -> None:
    """Start or stop the cluster from the command line (`python -m tests.servers.cluster start`)."""
    cluster = Cluster()
    if command == "stop":
        print("cluster stopped" if cluster.stop() else "no cluster runs")
        return
    try:
        find_java()
        cluster.start()
    except (EngineError, JavaError) as error:
        sys.exit(f"rivermeet: {error}")
    print(f"cluster runs: {WORKERS} workers of {CORES} core and {MEMORY} each; logs in {cluster.folder}")
    for name, value in cluster.environ.items():
        print(f"export {name}={value}")


if __name__ == "__main__":
    main(sys.argv[1])
