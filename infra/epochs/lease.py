"""A lease: the lock of tables behind a URL, one small object that is only ever put on a condition.

| the object | whoever wants the lease |
|---|---|
| is not there, or was given back | puts its name: If-None-Match, or If-Match of what it read |
| is of a dead run of this very home | takes it over at once: the home's own lock shows that the run has ended |
| is another's, and changes | waits |
| is another's, and has not changed for its term | takes it over, with the next token |

No two clocks are compared: a term is what the one who waits has waited, by its own clock, and the holder counts its own
from before it asked. The holder puts the object again three times a term. Held up for longer, it may still believe that
it holds the lease; what counts is the token (``infra/delta/fence.py``).

    A takes it, token 3; is stopped                     {"token": 3, "holder": "A…", "renewed": 12}
    B sees the same object for a term, takes it, raises the fence to 4
    A goes on, and commits: refused

Held by ``tests/infra/epochs/test_lease.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

from rivermeet.infra.delta.fence import LeaseLostError
from rivermeet.pipelines.extras import require

NAME = "_lease.json"


@dataclass
class Lease:
    """The lease of one folder of tables.

    Parameters
    ----------
    url
        Of the folder; the object lies in it.
    term
        Seconds after which a silent holder counts as gone.
    home
        What the runs that the caller has already kept out have in common (`identity`).
    clock, sleep
        Stand in for the process's own.
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
        """Wait until it is ours.

        Parameters
        ----------
        taken_over
            Called with the token where the holder before has not given it back.
        """
        watched, since = "", 0.0
        while True:
            body, tag = self._read()
            gone = bool(body) and self._is_dead(body)
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
        """Renew it in the background, until it is given back."""
        Thread(target=self._keep, daemon=True, name=f"lease {self.url}").start()

    def renew(self) -> None:
        """Say that we are there; where another has it, it is lost."""
        with self._turn:
            if self._ended.is_set() or self._lost:
                return
            began = self.clock()
            tag = self._swap({**self._body, "renewed": self._body["renewed"] + 1}, {"e_tag": self._tag})
            if tag is None:
                self._lost = True
            else:
                self._until = began + self.term

    def check(self) -> int:
        """The token, where the lease is ours still, by our clock and by the store.

        Raises
        ------
        LeaseLostError
            Where it is not.
        """
        if self._lost or self.clock() >= self._until or self._read()[0].get("holder") != self._body["holder"]:
            raise LeaseLostError(self.url)
        return self.token

    def give_back(self) -> None:
        """Let the next one have it without waiting."""
        with self._turn:
            self._ended.set()
            if not self._lost:
                self._swap({**self._body, "holder": None}, {"e_tag": self._tag})

    def _keep(self) -> None:
        while not self._ended.wait(self.term / 3) and not self._lost:
            try:
                self.renew()
            except Exception as error:  # the store is away: tried again, as long as the term lasts
                print(f"rivermeet: {self.url} could not be renewed ({type(error).__name__})", file=sys.stderr)

    def _is_dead(self, body: Mapping[str, Any]) -> bool:
        return body["holder"] is not None and body["home"] == self.home

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
        """Put the object on a condition; its new tag, or None where another one was first."""
        from obstore import put
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            tag = put(self._store, NAME, json.dumps(body).encode(), mode=mode)["e_tag"] or ""
        except (AlreadyExistsError, PreconditionError):
            found, tag = self._read()
            # The answer to our own put was lost, and it was sent again.
            if found != body:
                return None
        self._body, self._tag = body, tag
        return tag

    def _read(self) -> tuple[dict[str, Any], str]:
        # Before obstore is imported: it says what to install (test_without_obstore_it_is_said_what_to_install).
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
        # Given any, obstore looks for no others in the environment.
        clear = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("true", "1")
        options: Any = {"timeout": patience, "allow_http": clear}
        return from_url(self.url, retry_config={"retry_timeout": patience}, client_options=options)


def identity(locks: Path) -> str:
    """What distinguishes a home on this machine, since it was started, from all others."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    own = locks / "home-id"
    if not own.exists():
        locks.mkdir(parents=True, exist_ok=True)
        half = own.with_name(f".home-id-{uuid4().hex}")
        half.write_text(uuid4().hex)
        # Of two that start at once one gives the name.
        with contextlib.suppress(FileExistsError):
            own.hardlink_to(half)
        half.unlink()
    machine = boot.read_text().strip() if boot.exists() else str(time.time())
    return f"{socket.gethostname()}:{machine}:{own.read_text()}"
