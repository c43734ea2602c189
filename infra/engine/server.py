"""The engine's supervisor: starts Spark Connect, watches it, counts its jobs, stops it when it is not in use.

Run by `infra.engine.warm` as a process of its own (`python -m infra.engine.server`). The JVM ends with
the supervisor, however that ends: it reads from a pipe that the supervisor holds.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from subprocess import Popen, TimeoutExpired
from types import FrameType
from typing import Any, cast

import psutil

from infra.engine import conf as spark_conf
from infra.engine.files import EngineFiles, EngineState
from infra.engine.jars import jars
from infra.engine.process import fingerprint
from infra.settings import Settings

LOOK_SECONDS = 0.5


def main() -> None:
    """Serve until the JVM dies, the engine is idle for too long, or SIGTERM comes."""
    settings = Settings.from_env()
    files = EngineFiles(settings.engine_home)
    signal.signal(signal.SIGTERM, _leave)
    # Python code inside a query runs in this environment, whichever one the PATH names.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    started, jvm, jobs = _serve(settings)
    files.write(started)
    try:
        _watch(jvm, jobs, files, settings.engine_idle_minutes * 60)
    finally:
        if files.recorded() == started:
            files.forget()
        _end(jvm)


def _end(jvm: Popen[bytes]) -> None:
    jvm.terminate()
    try:
        jvm.wait(timeout=10)
    except TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _leave(signum: int, frame: FrameType | None) -> None:
    sys.exit(0)


def _serve(settings: Settings) -> tuple[EngineState, Popen[bytes], Callable[[], int]]:
    """Start Spark; what is recorded of it, its process, and what counts the jobs that it has run."""
    from pyspark import SparkConf, SparkContext

    conf = spark_conf.server(settings, jars(settings))
    context = SparkContext(conf=SparkConf().setAll(list(conf.items())))
    # Only the JVM knows which port it got.
    service = getattr(cast(Any, context._jvm), "org.apache.spark.sql.connect.service.SparkConnectService$")
    jvm: Popen[bytes] = cast(Any, context._gateway).proc
    state = EngineState(
        pid=os.getpid(),
        pid_created=psutil.Process().create_time(),
        jvm_pid=jvm.pid,
        jvm_created=psutil.Process(jvm.pid).create_time(),
        port=getattr(service, "MODULE$").localPort(),
        started=time.time(),
        fingerprint=fingerprint(conf),
    )
    return state, jvm, cast(Any, context._jsc).sc().dagScheduler().numTotalJobs


def _watch(jvm: Popen[bytes], jobs: Callable[[], int], files: EngineFiles, idle_seconds: float) -> None:
    known = 0
    while jvm.poll() is None:
        with suppress(Exception):  # it is just ending, which Py4J reports in several ways
            if (counted := jobs()) != known:
                files.count_jobs(known := counted)
        with files.unused() as unused:
            if unused and files.idle_seconds() > idle_seconds:
                # While no client can come in: the next one finds nothing and starts an engine.
                files.forget()
                _end(jvm)
                return
        time.sleep(min(LOOK_SECONDS, idle_seconds / 4))


if __name__ == "__main__":
    main()
