"""One run of a node at a time, on all engines and homes of a machine; ends the queries of a killed run.

Delta's log store for local files coordinates writers within one JVM only, so the lock is a file beside the tables:
homes that share tables share it. Tables at a URL are locked per home, and between homes by a lease.

An engine continues the queries of a killed client. A run that takes a lock which was not released closes the sessions
of the dead holder, so that the holder's last write cannot take effect later
(``tests/infra/epochs/test_two_at_once.py``).

A lease is one small object that is only written with conditional puts:

| the object | a run that wants the lease |
|---|---|
| does not exist, or was released | writes its name: If-None-Match, or If-Match of the object it read |
| belongs to a crashed run of this home | takes it over immediately: the home's own lock shows that the run has ended |
| belongs to another run, and changes | waits |
| belongs to another run, and has not changed for its term | takes it over, with the next token |

Clocks are never compared: the waiting run measures the term by its own clock, and the holder counts from before its
request. The holder renews the object three times per term. If it is delayed for longer, it may still believe that
it holds the lease; only the token counts (``infra/delta/fence.py``).

    A takes it, token 3; is stopped                     {"token": 3, "holder": "A…", "renewed": 12}
    B sees the same object for a term, takes it, raises the fence to 4
    A resumes, and commits: refused

Held by ``tests/infra/epochs/test_lease.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from filelock import FileLock, Timeout

from rivermeet.infra.delta.fence import LeaseLostError
from rivermeet.infra.delta.location import is_local, local
from rivermeet.pipelines.extras import require

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


NAME = "_lease.json"


@dataclass
class Lease:
    """The lease of one folder of tables, which contains the object.

    After ``term`` seconds without a renewal a holder is considered dead. ``home`` is the `identity` of the runs that
    the home's own lock already keeps out. ``clock`` and ``sleep`` replace those of the process in tests.
    """

    url: str
    term: float
    home: str
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    token: int = 0
    _tag: str = ""
    _body: Mapping[str, Any] = field(default_factory=dict)
    _until: float = 0.0
    _lost: bool = False
    _ended: Event = field(default_factory=Event, repr=False)
    _turn: Lock = field(default_factory=Lock, repr=False)

    def take(self, taken_over: Callable[[int], None] = lambda token: None) -> None:
        """Acquire the lease, waiting if necessary.

        ``taken_over`` is called with the token if the previous holder did not release it.
        """
        watched, since = "", 0.0
        while True:
            body, tag = self._read()
            # A run of this home that has not released it crashed: the home's own lock keeps others out.
            gone = bool(body) and body["holder"] is not None and body["home"] == self.home
            if body and body["holder"] and not gone:
                if tag != watched:
                    if not watched:
                        print(f"rivermeet: {self._waits_for(body)}", file=sys.stderr)
                    watched, since = tag, self.clock()
                gone = self.clock() - since >= body["term"]
                if not gone:
                    self.sleep(min(1.0, self.term / 10))
                    continue
            if self._put(body, tag):
                if gone:
                    taken_over(self.token)
                return

    def _waits_for(self, body: Mapping[str, Any]) -> str:
        process = f" (process {body['pid']})" if "pid" in body else ""
        return (
            f"a run on {body['host']}{process} holds the lease of {self.url}; waiting until it ends, or for "
            f"{body['term']:g} s in which it does not renew the lease. Whose it is stands in {self.url}/{NAME}"
        )

    def keep(self) -> None:
        """Renew it in the background until it is released."""
        Thread(target=self._keep, daemon=True, name=f"lease {self.url}").start()

    def renew(self) -> None:
        """Renew the lease; mark it lost if another holder has taken it."""
        with self._turn:
            if self._ended.is_set() or self._lost:
                return
            began = self.clock()
            tag = self._swap({**self._body, "renewed": self._body["renewed"] + 1}, {"e_tag": self._tag})
            if tag is None:
                self._lost = True
            else:
                self._until = began + self.term

    def confirm(self) -> int:
        """The token; raises `LeaseLostError` unless the lease is still held, by our clock and by the store."""
        if self._lost or self.clock() >= self._until or self._read()[0].get("holder") != self._body["holder"]:
            raise LeaseLostError(self.url)
        return self.token

    def give_back(self) -> None:
        """Release the lease."""
        with self._turn:
            self._ended.set()
            if not self._lost:
                self._swap({**self._body, "holder": None}, {"e_tag": self._tag})

    def _keep(self) -> None:
        while not self._ended.wait(self.term / 3) and not self._lost:
            try:
                self.renew()
            except Exception as error:  # the store is unreachable: retried until the term ends
                print(f"rivermeet: {self.url} could not be renewed ({type(error).__name__})", file=sys.stderr)

    def _put(self, before: Mapping[str, Any], tag: str) -> bool:
        began = self.clock()
        self.token = before.get("token", 0) + 1
        body = {
            **{"token": self.token, "holder": uuid4().hex, "renewed": 0},
            **{"term": self.term, "home": self.home, "host": socket.gethostname()},
            "pid": os.getpid(),
        }
        if self._swap(body, {"e_tag": tag} if tag else "create") is None:
            return False
        self._until = began + self.term
        return True

    def _swap(self, body: Mapping[str, Any], mode: Any) -> str | None:
        """Put the object conditionally; return its new tag, or None if another run was first."""
        from obstore import put
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            tag = put(self._store, NAME, json.dumps(body).encode(), mode=mode)["e_tag"] or ""
        except (AlreadyExistsError, PreconditionError):
            found, tag = self._read()
            # The response to our own put was lost, and the put was repeated.
            if found != body:
                return None
        self._body, self._tag = body, tag
        return tag

    def _read(self) -> tuple[dict[str, Any], str]:
        # Before obstore is imported, to say what to install (test_without_obstore_it_is_said_what_to_install).
        store = self._store
        from obstore import get

        try:
            found = get(store, NAME)
        except FileNotFoundError:
            return {}, ""
        return json.loads(bytes(found.bytes())), found.meta["e_tag"] or ""

    @cached_property
    def _store(self) -> Any:
        require("obstore")
        from obstore.store import from_url

        patience = timedelta(seconds=self.term / 3)
        # If any is given, obstore reads no others from the environment.
        clear = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("true", "1")
        options: Any = {"timeout": patience, "allow_http": clear}
        return from_url(self.url, retry_config={"retry_timeout": patience}, client_options=options)


def identity(locks: Path) -> str:
    """Identifies a home on this machine since its last boot."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    own = locks / "home-id"
    if not own.exists():
        locks.mkdir(parents=True, exist_ok=True)
        half = own.with_name(f".home-id-{uuid4().hex}")
        half.write_text(uuid4().hex)
        # If two start at the same time, one of them sets the name.
        with contextlib.suppress(FileExistsError):
            own.hardlink_to(half)
        half.unlink()
    machine = boot.read_text().strip() if boot.exists() else str(time.time())
    return f"{socket.gethostname()}:{machine}:{own.read_text()}"
