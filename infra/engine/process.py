"""The engine's processes: launched, recognised, ended."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from rivermeet.infra.engine import processes
from rivermeet.infra.engine.aot_cache import ends_within
from rivermeet.infra.engine.files import EngineFiles, EngineState
from rivermeet.infra.engine.jars import jars
from rivermeet.infra.engine.java import find_java
from rivermeet.infra.engine.processes import is_free, spawn
from rivermeet.infra.settings import Settings
from rivermeet.pipelines.errors import RivermeetError

START_TIMEOUT_SECONDS = 120.0

# They would turn the server, or what it starts, into a client of something else.
FOREIGN = (
    "SPARK_REMOTE",
    "SPARK_LOCAL_REMOTE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_API_MODE",
    "SPARK_TESTING",
    "SPARK_HOME",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_DRIVER_PYTHON",
)

SUPERVISOR_ENDS_SECONDS = 5
"""How long the supervisor may take once its JVM has ended, or was to have ended."""
SHOWN_EVERY_SECONDS = 5
"""How often a person who waits for the engine sees that it is coming."""


class EngineError(RivermeetError):
    """The warm engine could not be started, reached or stopped."""

    remedy = "Do what the message says about the port, the log or the running engine, and run again."


def fingerprint(conf: Mapping[str, str]) -> str:
    """Return what distinguishes engines with different settings or versions."""
    parts = [sorted(conf.items()), version("pyspark"), sys.prefix]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def launch(settings: Settings, files: EngineFiles) -> EngineState:
    """Start the supervisor and its JVM, and wait until clients can come.

    Parameters
    ----------
    settings : Settings
    files : EngineFiles
        Whose start lock the caller holds.

    Returns
    -------
    EngineState

    Raises
    ------
    EngineError
        If the port is taken or the engine does not start.
    """
    find_java()
    jars(settings)
    if settings.engine_port and not is_free(settings.engine_port):
        raise EngineError(
            f"port {settings.engine_port} on 127.0.0.1 is taken: free it, or set RIVERMEET_ENGINE_PORT to "
            f"another (unset: any free port)"
        )
    end(files)
    shutil.rmtree(files.folder / "scratch", ignore_errors=True)
    print("rivermeet: starting the Spark engine (it stays warm)", file=sys.stderr)
    env = {k: v for k, v in os.environ.items() if k not in FOREIGN} | settings.environ()
    env["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = files.new_token()
    process = spawn([sys.executable, "-m", "rivermeet.infra.engine.server"], env, files.folder, files.log)
    began = time.monotonic()
    shown = SHOWN_EVERY_SECONDS
    while (waited := time.monotonic() - began) < START_TIMEOUT_SECONDS and process.poll() is None:
        state = files.read()
        if state is not None and state.pid == process.pid:
            return state
        if waited > shown:
            print(f"rivermeet: the Spark engine is starting, {waited:.0f} s", file=sys.stderr)
            shown += SHOWN_EVERY_SECONDS
        time.sleep(0.05)
    process.kill()
    raise EngineError(f"the engine did not start: {last_said(files.log)} (log: {files.log})")


def last_said(file: Path) -> str:
    """The last line of a process's log: why it ended."""
    log = file.read_text(errors="replace")
    # If the JVM never came up, what it said stands before PySpark's traceback, which only says so.
    said = log.partition("Traceback")[0] if "JAVA_GATEWAY_EXITED" in log else log
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def end(files: EngineFiles) -> bool:
    """End what runs of the recorded engine, and remove the record.

    Parameters
    ----------
    files : EngineFiles
        Whose start lock the caller holds.

    Returns
    -------
    bool
        Whether anything ran.
    """
    recorded = files.read_record()
    ran = False
    if recorded is not None:
        # The supervisor's time to see that its JVM has ended, or to kill it, and to have the cache made.
        seconds = ends_within(recorded.command()) + SUPERVISOR_ENDS_SECONDS
        ran = processes.end(recorded.both, seconds)
    files.forget()
    return ran
