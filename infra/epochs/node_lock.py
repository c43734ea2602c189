"""One run of a node at a time, on all engines and homes of a machine; ends the queries of a killed run.

Delta's log store for local files coordinates writers within one JVM only, so the lock is a file beside the tables:
homes that share tables share it. Tables at a URL are locked per home, and between homes by a lease (``lease.py``).

An engine continues the queries of a killed client. A run that takes a lock which was not released closes the sessions
of the dead holder, so that the holder's last write cannot take effect later
(``tests/infra/epochs/test_two_at_once.py``).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from rivermeet.infra.delta.location import is_local, local
from rivermeet.infra.epochs.lease import Lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lock_folder(tables: str, pipeline: str, node: str, otherwise: Path) -> Path:
    """The folder of a node's lock: beside its tables, or ``otherwise`` if they are not on a local disk."""
    return local(tables) / pipeline / node if is_local(tables) else otherwise / f"{pipeline}.{node}"


_LEASES: dict[Path, Lease] = {}
"""Leases that this process holds, by the folder of the lock."""


class NodeLock:
    """A lock that records its last holder, in the folder from `lock_folder`.

    ``lease`` creates the lease that is held with it, if the tables are at a URL. ``taken_over`` is called with the
    lease's token if the previous holder did not release it.
    """

    def __init__(
        self,
        folder: Path,
        lease: Callable[[], Lease] | None = None,
        taken_over: Callable[[int], None] = lambda token: None,
    ) -> None:
        self._lock = FileLock(folder / ".lock", is_singleton=True)
        self._lease = lease
        self._taken_over = taken_over
        self._holder = folder / ".holder"
        self._folder = folder

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Acquire the lock, waiting if necessary. Reentrant within a thread."""
        if self._lock.is_locked:
            yield
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._end_the_dead()
            try:
                with self._hold_lease():
                    yield
            except Exception:
                self._holder.unlink(missing_ok=True)
                raise
            # Left by Ctrl-C or a kill: its queries may still be running.
            self._holder.unlink(missing_ok=True)

    @property
    def is_free(self) -> bool:
        """Whether nobody on this machine holds it, this process included."""
        if not self._folder.is_dir():
            return True
        try:
            with FileLock(self._folder / ".lock", timeout=0):
                return True
        except Timeout:
            return False

    def confirm(self) -> int | None:
        """The lease's token, or None without a lease; raises `LeaseLostError` if another run has taken it."""
        held = _LEASES.get(self._folder)
        return None if held is None else held.confirm()

    @contextmanager
    def _hold_lease(self) -> Iterator[None]:
        if self._lease is None:
            yield
            return
        lease = self._lease()
        lease.take(self._taken_over)
        lease.keep()
        _LEASES[self._folder] = lease
        try:
            yield
        finally:
            del _LEASES[self._folder]
            with contextlib.suppress(Exception):  # then it expires
                lease.give_back()

    def uses(self, engine: Path | None, sessions: Sequence[SparkSession]) -> None:
        """Record the holder's sessions of a warm engine, for the run that takes the lock after its death."""
        if engine is not None:
            ids = [session.session_id for session in sessions]  # pyright: ignore[reportAttributeAccessIssue]
            self._holder.write_text(json.dumps({"engine": str(engine), "sessions": ids}))

    def _end_the_dead(self) -> None:
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
            left = json.loads(self._holder.read_text())
            close_sessions(Path(left["engine"]), left["sessions"])
            self._holder.unlink(missing_ok=True)


def close_sessions(engine: Path, sessions: Sequence[str]) -> None:
    """End sessions of a warm engine that another process opened, with their queries; none if the engine has ended."""
    from pyspark.sql.connect.client import SparkConnectClient

    from rivermeet.infra.engine.channel import LocalChannelBuilder
    from rivermeet.infra.engine.files import EngineFiles

    files = EngineFiles(engine)
    state = files.read()
    if state is None:
        return
    for session in sessions:
        channel = LocalChannelBuilder(state, files.token())
        channel.set(channel.PARAM_SESSION_ID, session)
        with contextlib.suppress(Exception):  # it has already ended
            client = SparkConnectClient(channel)
            client.set_retry_policies([channel.retry_policy])
            client.release_session()
            client.close()
