"""The sessions of one process on one engine: that of the process, and those of threads that compute beside it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock, local
from typing import TYPE_CHECKING

from rivermeet.infra.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(eq=False)
class Sessions:
    """Sessions on the engine that settings name, opened on first use and renewed where the engine has gone."""

    settings: Settings
    _own: local = field(default_factory=local, repr=False)
    _opened: list[SparkSession] = field(default_factory=list, repr=False)
    _opening: RLock = field(default_factory=RLock, repr=False)

    @property
    def are_concurrent(self) -> bool:
        """Whether the engine is another process, which computes for several sessions of this one at once."""
        return self.settings.engine == "auto" or self.settings.engine.startswith("sc://")

    def open(self) -> SparkSession:
        """The process's session; a thread that uses its own has one beside it."""
        base = self._base()
        return self._beside("epochs", base) if getattr(self._own, "is_used", False) else base

    def open_for_folds(self) -> SparkSession:
        """A session that only MERGEs use."""
        return self._beside("folds", self._base())

    def use_own(self) -> None:
        """Let this thread have sessions of its own: two queries of one session drop each other's views."""
        self._own.is_used = True

    def interrupt(self) -> None:
        """Stop what all sessions but that of the process are computing."""
        for spark in list(self._opened):
            with suppress(Exception):  # it has just ended by itself
                spark.interruptAll()

    def _beside(self, what: str, base: SparkSession) -> SparkSession:
        """The session of this thread for epochs or folds; renewed with that of the process."""
        from rivermeet.infra.engine.session import new_session

        known = self._own.__dict__.get(what)
        if known is None or known[0] is not base:
            known = self._own.__dict__[what] = (base, new_session(base))
            self._opened.append(known[1])
        return known[1]

    def _base(self) -> SparkSession:
        from rivermeet.infra.engine.session import session

        with self._opening:
            return session(self.settings)
