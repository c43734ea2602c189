"""A Java program that listens on the loopback: started in a folder, waited for, ended, its log kept while it runs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rivermeet.infra.engine.java import find_java
from rivermeet.infra.engine.processes import Apart, end, spawn

SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SERVER_START_SECONDS = 60.0


class ServerError(RuntimeError):
    """A server did not start."""


@dataclass
class JavaServer:
    """One program in a folder of its own.

    Attributes
    ----------
    name
        In messages, and of its log.
    options
        Of Java. As they are, it starts fast and stays small, and computes slowly.
    """

    name: str
    folder: Path
    options: Sequence[str] = SMALL
    process: subprocess.Popen[bytes] | None = None

    def start(self, arguments: Sequence[str], answers: Callable[[], bool]) -> None:
        """Start it, and wait until it answers.

        Raises
        ------
        ServerError
            Where it ends, or has not answered after a minute.
        """
        self.process = self.java(arguments)
        deadline = time.monotonic() + SERVER_START_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            if answers():
                return
            time.sleep(0.1)
        log = self._log.read_text(errors="replace").strip().splitlines()
        self.stop()
        raise ServerError(f"the {self.name} did not start: {log[-1] if log else 'it said nothing'}")

    def java(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        """A Java process in the folder."""
        return spawn([str(find_java()), *self.options, *arguments], os.environ, self.folder, self._log)

    def stop(self) -> None:
        """End it in good order."""
        if self.process is not None and self.process.poll() is None:
            end([Apart.of(self.process.pid)])
            self.process.wait()

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @property
    def _log(self) -> Path:
        return self.folder / f"{self.name.replace(' ', '-')}.log"
