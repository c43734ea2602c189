"""The warm engine: one local Spark Connect server, started on first use, shared, stopped idle."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
from filelock import FileLock

from rivermeet.infra.engine import conf as spark_conf
from rivermeet.infra.engine.aot_cache import describe_cache
from rivermeet.infra.engine.files import EngineFiles, EngineState
from rivermeet.infra.engine.heap import Heap
from rivermeet.infra.engine.jars import jars
from rivermeet.infra.engine.process import EngineError, end, fingerprint, launch
from rivermeet.infra.held_file import HeldFile
from rivermeet.infra.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Attachment", "EngineError", "EngineStatus", "attach", "start", "status", "stop"]


@dataclass(frozen=True)
class EngineStatus:
    """What `rivermeet engine status` shows.

    Parameters
    ----------
    state : EngineState or None
        None if no engine runs.
    in_use : bool
        Whether a client holds a session.
    idle_seconds : float
        How long no client has been seen.
    memory_mb : int
        Resident memory of the JVM.
    jobs : int
        Spark jobs since its start, as of half a second ago.
    heap : Heap or None
        How its heap is doing; None in its first seconds.
    answers : bool
        Whether it takes a connection within five seconds.
    cache : str
        What there is to say of its JVM's ahead-of-time cache.
    """

    state: EngineState | None
    in_use: bool = False
    idle_seconds: float = 0.0
    memory_mb: int = 0
    jobs: int = 0
    heap: Heap | None = None
    answers: bool = True
    cache: str = ""


@dataclass(frozen=True)
class Attachment:
    """A process's hold on the engine: while it is open, the engine does not stop as idle."""

    state: EngineState
    token: str
    lease: int
    files: EngineFiles
    client: HeldFile

    def note(self, spark: SparkSession) -> None:
        """Note a session of the process, which the engine closes when the process has died."""
        self.client.note(spark.session_id)  # pyright: ignore[reportAttributeAccessIssue]

    def close(self) -> None:
        """Give the hold back."""
        self.client.remove()
        with contextlib.suppress(OSError):
            os.close(self.lease)


def attach(settings: Settings) -> Attachment:
    """Hold the engine, starting it if it does not run.

    Parameters
    ----------
    settings : Settings

    Returns
    -------
    Attachment

    Raises
    ------
    EngineError
        If the engine does not start, or runs with other settings and is in use.
    """
    files = _files(settings)
    with FileLock(files.start_lock):
        _stop_if_outdated(settings, files)
        lease = files.lease()
        try:
            # Read with the lease in hand: from here on the engine does not stop as idle.
            state = files.read() or launch(settings, files)
            return Attachment(state, files.token(), lease, files, files.client())
        except BaseException:
            os.close(lease)
            raise


def start(settings: Settings) -> EngineState:
    """Start the engine unless it runs, without holding it."""
    held = attach(settings)
    held.close()
    return held.state


def stop(settings: Settings) -> bool:
    """Stop the engine.

    Returns
    -------
    bool
        Whether one ran.
    """
    files = _files(settings)
    with FileLock(files.start_lock):
        return end(files)


def status(settings: Settings) -> EngineStatus:
    """Return what the engine is doing."""
    files = _files(settings)
    state = files.read()
    if state is None:
        return EngineStatus(None)
    with files.hold_unused() as unused:
        idle = files.idle_seconds() if unused else 0.0
    resident = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        resident = psutil.Process(state.jvm_pid).memory_info().rss
    from rivermeet.infra.engine.watch import LOOK_SECONDS, answers

    answered = answers(state, files.token(), LOOK_SECONDS)
    cache = describe_cache(state.command(), settings.engine_aot_cache == "on")
    return EngineStatus(state, not unused, idle, resident // 2**20, files.jobs(), files.heap(), answered, cache)


def _files(settings: Settings) -> EngineFiles:
    files = EngineFiles(settings.engine_home)
    files.make()
    return files


def _stop_if_outdated(settings: Settings, files: EngineFiles) -> None:
    state = files.read()
    if state is None:
        return
    wanted = fingerprint(spark_conf.server(settings, jars(settings)))
    if state.fingerprint == wanted:
        return
    with files.hold_unused() as unused:
        if not unused:
            raise EngineError(
                f"the engine (pid {state.pid}) runs with other settings or versions and is in "
                f"use: wait for its clients, or stop it with `rivermeet engine stop`"
            )
    end(files)
