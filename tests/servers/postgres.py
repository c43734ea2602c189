"""PostgreSQL on this machine, from Debian's package, in a folder that is removed when it ends.

| who runs it | the server runs as |
|---|---|
| a user | that user |
| root | postgres: PostgreSQL refuses root; its folder is one that postgres can reach |

It listens on 127.0.0.1 and accepts every user. Held by ``tests/infra/sources/postgres/test_reading.py``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.ports import free_port

BINARIES = Path("/usr/lib/postgresql")
"""Where Debian puts each major version's programs; they are not on the path."""
_SECONDS = 60


class NoPostgresError(RuntimeError):
    """PostgreSQL is not installed here, or does not start."""


def binaries() -> Path:
    """Folder of the programs of the newest version that is installed."""
    found = sorted(BINARIES.glob("*/bin/initdb"), key=lambda path: float(path.parent.parent.name))
    if not found:
        raise NoPostgresError(f"PostgreSQL is not installed in {BINARIES}: apt-get install postgresql")
    return found[-1].parent


@dataclass
class PostgresServer:
    """One server.

    Attributes
    ----------
    folder
        Of its data and log.
    options
        Parameters of the server beside or in place of its own.
    """

    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)
    port: int = 0

    @property
    def dsn(self) -> str:
        """How clients connect, without the name of a database."""
        return f"host=127.0.0.1 port={self.port} user=postgres"

    def create(self) -> None:
        """Make its data folder."""
        self._run("initdb", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.port = self.port or free_port()
        # Decoding reads what was flushed alone, so that synchronous_commit stays on.
        own = {
            "listen_addresses": "127.0.0.1",
            "wal_level": "logical",
            "max_replication_slots": "16",
            "max_wal_senders": "16",
            "fsync": "off",
            "full_page_writes": "off",
            "shared_buffers": "64MB",
        }
        given = " ".join(f"-c {name}={value}" for name, value in {**own, **self.options}.items())
        flags = f"-p {self.port} -k {self.folder} {given}"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-l", log, "-w", "-t", str(_SECONDS), "-o", flags, "start")

    def stop(self, mode: str = "fast") -> None:
        """End it; ``immediate`` as a power cut would."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [*_as_user(), str(binaries() / program), "-D", str(self.folder / "data"), *arguments]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/"
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise NoPostgresError(f"{program} failed: {said[-1] if said else 'it said nothing'}")


def _as_user() -> list[str]:
    # Not by subprocess's own user=: with it Python forks, and gRPC's handlers of a fork have ended the child where a
    # client of the engine had threads at work.
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []


@contextmanager
def running(**options: str) -> Iterator[PostgresServer]:
    """A server of one's own while the block lasts; ``options`` are parameters of the server.

    Raises
    ------
    NoPostgresError
        Where there is no PostgreSQL.
    """
    binaries()
    folder = Path(tempfile.mkdtemp(prefix="rivermeet-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    server = PostgresServer(folder, options)
    try:
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
