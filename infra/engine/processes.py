"""Processes that outlive their parent: started apart, distinguished from later ones with their number, ended."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

END_SECONDS = 15
"""How long a process may take to end, unless it has something to write."""


@dataclass(frozen=True)
class Apart:
    """A process on its own. The time of its creation distinguishes it from a later one with its number.

    Attributes
    ----------
    created
        Seconds from the machine's start: the clock may be set while the process runs. Seconds of the clock in what was
        recorded before 2026-12.
    """

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> Apart:
        """The process that has this number now."""
        return cls(pid, psutil.Process(pid).create_time() - psutil.boot_time())

    def find(self) -> psutil.Process | None:
        """The process, if it still runs."""
        try:
            process = psutil.Process(self.pid)
            created = process.create_time()
            # The kernel gives the machine's start in whole seconds, and not always the same one.
            same = min(abs(created - self.created), abs(created - psutil.boot_time() - self.created)) < 2
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


def spawn(command: Sequence[str], env: Mapping[str, str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a process in its own session, so that Ctrl-C in the terminal of the starting process does not reach it.

    Parameters
    ----------
    log
        Takes all that it says.
    """
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def end(processes: Iterable[Apart], seconds: float = END_SECONDS) -> bool:
    """End those that still run, after so many seconds by force; whether any did."""
    running = [process for process in (one.find() for one in processes) if process is not None]
    for process in running:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    slow = psutil.wait_procs(running, timeout=seconds)[1]
    for process in slow:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    # What comes next may take its port or its folder.
    psutil.wait_procs(slow, timeout=END_SECONDS)
    return bool(running)


def is_free(port: int) -> bool:
    """Whether a server may take the port on 127.0.0.1."""
    with socket.socket() as probe:
        # As servers bind, so that a connection just closed does not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
