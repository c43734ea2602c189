"""The warm engine's folder: who runs it, where it listens, its token, who uses it."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from rivermeet.infra.engine.heap import Heap
from rivermeet.infra.engine.processes import Apart
from rivermeet.infra.held_file import HeldFile, hold_file, read_left_file

_STATE, _JOBS, _HEAP, _CLIENTS, _LEASE = "state.json", "jobs", "heap.json", "clients", "lease.lock"


@dataclass(frozen=True)
class EngineState:
    """One running engine. Creation times distinguish a process from a later one with its number."""

    pid: int
    pid_created: float
    jvm_pid: int
    jvm_created: float
    port: int
    started: float
    fingerprint: str

    @property
    def alive(self) -> bool:
        """Whether both the supervisor and its JVM still run."""
        return len(self.processes()) == 2

    @property
    def both(self) -> tuple[Apart, Apart]:
        """Its two processes, supervisor first."""
        return Apart(self.pid, self.pid_created), Apart(self.jvm_pid, self.jvm_created)

    def processes(self) -> list[psutil.Process]:
        """Return those of its two processes that still run, supervisor first."""
        return [process for process in (one.find() for one in self.both) if process is not None]

    def command(self) -> list[str]:
        """How its JVM was started; nothing once it has ended."""
        jvm = self.both[1].find()
        with suppress(psutil.NoSuchProcess):
            return jvm.cmdline() if jvm is not None else []
        return []


@dataclass(frozen=True)
class EngineFiles:
    """The files of one engine folder, which only its user can enter."""

    folder: Path

    def make(self) -> None:
        """Make the folder, closed to other users."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)

    @property
    def log(self) -> Path:
        """What Spark and the supervisor print."""
        return self.folder / "engine.log"

    @property
    def start_lock(self) -> Path:
        """Held by the process that starts or stops the engine."""
        return self.folder / "start.lock"

    @property
    def token_file(self) -> Path:
        """The token that clients must show, readable by the user only."""
        return self.folder / "token"

    def new_token(self) -> str:
        """Write a fresh token and return it."""
        self.token_file.unlink(missing_ok=True)
        token = secrets.token_urlsafe(32)
        # Created with its final mode: there is no moment at which others could open it.
        descriptor = os.open(self.token_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(token)
        return token

    def token(self) -> str:
        """Return the running engine's token."""
        return self.token_file.read_text()

    def read(self) -> EngineState | None:
        """Return the recorded engine if it is alive."""
        state = self.read_record()
        return state if state is not None and state.alive else None

    def read_record(self) -> EngineState | None:
        """Return the recorded engine, alive or not."""
        try:
            return EngineState(**json.loads((self.folder / _STATE).read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def write(self, state: EngineState) -> None:
        """Record a running engine."""
        self.count_jobs(0)
        (self.folder / _HEAP).unlink(missing_ok=True)
        _write(self.folder / _STATE, json.dumps(asdict(state)))

    def count_jobs(self, jobs: int) -> None:
        """Record how many Spark jobs the engine has run."""
        _write(self.folder / _JOBS, str(jobs))

    def jobs(self) -> int:
        """Return how many Spark jobs the engine had run when its supervisor looked last; 0 if none has."""
        with suppress(FileNotFoundError):
            return int((self.folder / _JOBS).read_text())
        return 0

    def write_heap(self, heap: Heap) -> None:
        """Record how the engine's heap is doing."""
        _write(self.folder / _HEAP, json.dumps(asdict(heap)))

    def heap(self) -> Heap | None:
        """How the engine's heap was doing when its supervisor looked last; None where it has not looked."""
        with suppress(FileNotFoundError, ValueError, TypeError):
            return Heap(**json.loads((self.folder / _HEAP).read_text()))
        return None

    def client(self) -> HeldFile:
        """Record this process as a client, which notes its sessions there, a line each."""
        (self.folder / _CLIENTS).mkdir(mode=0o700, exist_ok=True)
        return hold_file(self.folder / _CLIENTS)

    def take_dead_clients(self) -> list[str]:
        """Sessions of clients that have died, each once."""
        left = (read_left_file(file, remove=True) for file in (self.folder / _CLIENTS).glob("[0-9]*"))
        return [session for noted in left if noted is not None for session in noted.split()]

    def forget(self) -> None:
        """Remove the record of the engine and its token."""
        (self.folder / _STATE).unlink(missing_ok=True)
        self.token_file.unlink(missing_ok=True)

    def lease(self) -> int:
        """Take a share of the lease: the engine stays while any process holds one.

        Returns
        -------
        int
            A file descriptor; closing it, or the death of the process, gives the share back.
        """
        descriptor = os.open(self.folder / _LEASE, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.utime(descriptor)
        return descriptor

    @contextmanager
    def hold_unused(self) -> Iterator[bool]:
        """Whether no client holds the lease; if so none can take it inside the block."""
        descriptor = os.open(self.folder / _LEASE, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.utime(descriptor)
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def idle_seconds(self) -> float:
        """Return for how long no client has been seen."""
        with suppress(FileNotFoundError):
            return max(0.0, time.time() - (self.folder / _LEASE).stat().st_mtime)
        return 0.0


def _write(file: Path, text: str) -> None:
    draft = file.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(file)
