"""The engine's supervisor: starts Spark Connect, watches it, counts its jobs, stops it when it is not in use.

Run by `infra.engine.warm` as a process of its own (`python -m rivermeet.infra.engine.server`). The JVM ends with
the supervisor, however that ends: it reads from a pipe that the supervisor holds.

What a client leaves behind is given up:

| the client | the engine |
|---|---|
| has died | closes its sessions, with their queries, checkpoints, views and artifacts |
| has died, and was the last one | drops what was cached by plan, too, which is no session's |
| has closed a session that brought jars | forgets these jars, whose files are gone |
| was the last one, and the heap is full still | ends, so that the next client starts a fresh one |
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from subprocess import Popen, TimeoutExpired
from threading import Thread
from types import FrameType
from typing import Any, cast

import psutil
from filelock import FileLock, Timeout

from rivermeet.infra.engine import conf as spark_conf
from rivermeet.infra.engine.aot_cache import AotCache, ends_within
from rivermeet.infra.engine.files import EngineFiles, EngineState
from rivermeet.infra.engine.heap import UNFREED, HeapMeter
from rivermeet.infra.engine.jars import jars
from rivermeet.infra.engine.java import find_java, version_of
from rivermeet.infra.engine.process import fingerprint
from rivermeet.infra.engine.processes import Apart
from rivermeet.infra.settings import Settings

IDLE_LOOK_SECONDS = 0.5
MEASURE_SECONDS = 5.0
SPENT_SECONDS = 20.0
"""After the last client of a full engine: its memory is freed meanwhile, and the heap is measured again."""


def main() -> None:
    """Serve until the JVM dies, the engine is idle for too long, or SIGTERM comes."""
    settings = Settings.from_env()
    files = EngineFiles(settings.engine_home)
    signal.signal(signal.SIGTERM, _leave)
    # Python code inside a query runs in this environment, whichever one the PATH names.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = spark_conf.server(settings, jars(settings))
    folder, cache = files.folder / "aot", None
    if settings.engine_aot_cache == "on":
        cache = AotCache.of(folder, version_of(find_java()), fingerprint(conf))
    else:
        shutil.rmtree(folder, ignore_errors=True)
    started, jvm, inside = _serve(conf, cache)
    command = psutil.Process(jvm.pid).cmdline()
    if cache is not None:
        cache.remove_if_refused(files.log.read_text(errors="replace"))
    files.write(started)
    # In a thread of its own: a JVM that is stopped, or full, does not answer, and has to be ended nevertheless.
    Thread(target=_look_after, args=(inside, files), daemon=True).start()
    try:
        _watch(jvm, files, settings.engine_idle_minutes * 60, ends_within(command))
    finally:
        # Who would start the next engine waits until this JVM has ended; `stop`, which ends it, has the lock itself.
        lock = FileLock(files.start_lock)
        with suppress(Timeout):
            lock.acquire(timeout=0)
        if files.read_record() == started:
            files.forget()
        _end(jvm, ends_within(command))
        if cache is not None:
            cache.make(command)


def _end(jvm: Popen[bytes], seconds: float) -> None:
    jvm.terminate()
    try:
        jvm.wait(timeout=seconds)
    except TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _leave(signum: int, frame: FrameType | None) -> None:
    sys.exit(0)


@dataclass(frozen=True)
class _Inside:
    """The engine's JVM as Py4J shows it."""

    jvm: Any
    spark: Any
    sessions: Any

    def jobs(self) -> int:
        """How many jobs it has run."""
        return self.spark.dagScheduler().numTotalJobs()

    def close(self, wanted: Collection[str]) -> None:
        """Close sessions with all that is theirs."""
        for id, key in self._keys():
            if id in wanted:
                self.sessions.closeSession(key, False)
        # Spark frees a checkpoint once a collection finds that nobody refers to it.
        self.jvm.java.lang.System.gc()

    def forget_jars(self) -> None:
        """Forget jars that came from sessions that are gone: their files are removed.

        Spark lists them for the jobs of every session: after a run that was refused before it read its topic by Spark's
        source, every job failed (``test_others_go_on_after_a_session_that_read_nothing``).
        """
        jars = self.spark.addedJars().apply("default")
        # As one text, so that a look asks the JVM but once.
        listed = jars.keySet().mkString("\n").splitlines()
        brought = {jar: jar.split("/artifacts/")[1].split("/")[0] for jar in listed if "/artifacts/" in jar}
        if not brought:
            return
        open_sessions = [self.sessions.getIsolatedSessionIfPresent(key) for _, key in self._keys()]
        there = {found.get().session().sessionUUID() for found in open_sessions if found.isDefined()}
        for jar in [jar for jar, session in brought.items() if session not in there]:
            jars.remove(jar)

    def _keys(self) -> Iterator[tuple[str, Any]]:
        active = self.sessions.listActiveSessions()
        for session in [active.apply(n) for n in range(active.size())]:
            id = session.sessionId()
            yield id, self.jvm.org.apache.spark.sql.connect.service.SessionKey(session.userId(), id)

    def drop_cache(self) -> None:
        """Drop what is cached by plan. It is no session's, and where one uses it is computed again."""
        self.jvm.org.apache.spark.sql.classic.SparkSession.builder().getOrCreate().catalog().clearCache()
        self.jvm.java.lang.System.gc()


def _serve(conf: Mapping[str, str], cache: AotCache | None) -> tuple[EngineState, Popen[bytes], _Inside]:
    """Start Spark; what is recorded of it, its process, and its JVM."""
    from pyspark import SparkConf, SparkContext

    given = dict(conf)
    if cache is not None:
        given["spark.driver.extraJavaOptions"] += f" {cache.options()}"
    context = SparkContext(conf=SparkConf().setAll(list(given.items())))
    # Only the JVM knows which port it got.
    service = getattr(cast(Any, context._jvm), "org.apache.spark.sql.connect.service.SparkConnectService$")
    module = getattr(service, "MODULE$")
    jvm: Popen[bytes] = cast(Any, context._gateway).proc
    own, its = Apart.of(os.getpid()), Apart.of(jvm.pid)
    state = EngineState(
        pid=own.pid,
        pid_created=own.created,
        jvm_pid=its.pid,
        jvm_created=its.created,
        port=module.localPort(),
        started=time.time(),
        fingerprint=fingerprint(conf),
    )
    return state, jvm, _Inside(context._jvm, cast(Any, context._jsc).sc(), module.sessionManager())


def _look_after(inside: _Inside, files: EngineFiles) -> None:
    """Count jobs, measure the heap, and give up what dead clients have left."""
    known, measured, left = 0, 0.0, False
    meter = HeapMeter(inside.jvm, time.monotonic)
    while True:
        with suppress(Exception):  # it is just ending, which Py4J reports in several ways; or the disk is full
            if (counted := inside.jobs()) != known:
                files.count_jobs(known := counted)
            inside.forget_jars()
            if dead := files.take_dead_clients():
                inside.close(dead)
                left = True
            with files.hold_unused() as unused:
                pass
            # Without the lock: a client need not wait for a JVM that does not answer.
            if left and unused:
                inside.drop_cache()
                left = False
            if time.monotonic() - measured > MEASURE_SECONDS:
                files.write_heap(meter.measure())
                measured = time.monotonic()
        time.sleep(IDLE_LOOK_SECONDS)


def _watch(jvm: Popen[bytes], files: EngineFiles, idle_seconds: float, ends_within: float) -> None:
    while jvm.poll() is None:
        with files.hold_unused() as unused:
            if unused and (files.idle_seconds() > idle_seconds or _is_spent(files)):
                # While no client can come in: the next one finds nothing and starts an engine.
                files.forget()
                _end(jvm, ends_within)
                return
        time.sleep(min(IDLE_LOOK_SECONDS, idle_seconds / 4))


def _is_spent(files: EngineFiles) -> bool:
    """Whether an engine that nobody uses has no room left, long enough after its last client for it to be given up."""
    heap = files.heap()
    return heap is not None and files.idle_seconds() > SPENT_SECONDS and (heap.is_full or heap.unfreed > UNFREED)


if __name__ == "__main__":
    main()
