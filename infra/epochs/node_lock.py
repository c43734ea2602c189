"""One run of a node at a time, on all engines and homes of a machine, and the end of what a killed run left going.

Delta's log store for local files keeps two writers apart within one JVM only, so that the lock lies beside the tables:
homes that share tables share it. Tables behind a URL are locked per home, and between homes by a lease (``lease.py``).

An engine goes on with what a killed client asked of it. Who takes a lock that was not given back closes the sessions of
the one who died, so that its last write cannot come up behind the new one's back
(``tests/infra/epochs/test_two_at_once.py``).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from filelock import FileLock, Timeout

from rivermeet.infra.epochs.lease import Lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lock_folder(tables: str, pipeline: str, node: str, otherwise: Path) -> Path:
    """Where the lock of a node lies: beside its tables, or in ``otherwise`` where they are on no local disk."""
    place = urlsplit(tables)
    if "://" not in tables:
        return Path(tables) / pipeline / node
    if place.scheme == "file":
        return Path(unquote(place.path)) / pipeline / node
    return otherwise / f"{pipeline}.{node}"


_LEASES: dict[Path, Lease] = {}
"""Leases that this process holds, by the folder of the lock."""


class NodeLock:
    """A lock that knows who held it last.

    Parameters
    ----------
    folder
        From `lock_folder`.
    lease
        Makes the lease that is held with it, where the tables are behind a URL.
    taken_over
        Called with the lease's token where the holder before has not given it back.
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
    def held(self) -> Iterator[None]:
        """Hold it; waits for whoever does, but for an outer block of the same thread."""
        if self._lock.is_locked:
            yield
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._end_the_dead()
            try:
                with self._leased():
                    yield
            except Exception:
                self._holder.unlink(missing_ok=True)
                raise
            # Left there by Ctrl-C, as by a kill: what it was about may still be going on.
            self._holder.unlink(missing_ok=True)

    @property
    def is_free(self) -> bool:
        """Whether nobody on this machine holds it, this process included."""
        if not self._folder.is_dir():
            return True
        asked = FileLock(self._folder / ".lock")
        try:
            asked.acquire(timeout=0)
        except Timeout:
            return False
        asked.release()
        return True

    def check(self) -> int | None:
        """The token of the lease, which a commit is to ask for; None where there is no lease.

        Raises
        ------
        LeaseLostError
            Where another run has taken the lease.
        """
        held = _LEASES.get(self._folder)
        return None if held is None else held.check()

    @contextmanager
    def _leased(self) -> Iterator[None]:
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
            with contextlib.suppress(Exception):  # then it runs out
                lease.give_back()

    def uses(self, engine: Path | None, sessions: Sequence[SparkSession]) -> None:
        """Note which sessions of a warm engine the holder asks, for the one who finds the lock after its death."""
        if engine is not None:
            ids = [session.session_id for session in sessions]  # pyright: ignore[reportAttributeAccessIssue]
            self._holder.write_text(json.dumps({"engine": str(engine), "sessions": ids}))

    def _end_the_dead(self) -> None:
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
            left = json.loads(self._holder.read_text())
            close_sessions(Path(left["engine"]), left["sessions"])
            self._holder.unlink(missing_ok=True)


def close_sessions(engine: Path, sessions: Sequence[str]) -> None:
    """End sessions of a warm engine that another process opened, and what they are doing; none where it has gone."""
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
        with contextlib.suppress(Exception):  # it has ended by itself: all that is wanted
            client = SparkConnectClient(channel)
            client.set_retry_policies([channel.retry_policy])
            client.release_session()
            client.close()
