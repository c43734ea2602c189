"""A run that ends at a named point: raised in this process, or by SIGKILL in one of its own.

What a crash leaves in tables and log is the same either way, because nothing of the protocol catches it. SIGKILL leaves
more: queries that go on in the engine, locks that the system gives back. It is used at three points of an epoch in
`make test`, and at all of them in `make prove`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from rivermeet.infra import crash
from rivermeet.infra.engine.session import close, new_session

How = Literal["raised", "SIGKILL"]
EITHER = pytest.mark.parametrize("by", ["raised", pytest.param("SIGKILL", marks=pytest.mark.prove)])


class CrashError(BaseException):
    """The end of a run at a named point; no `Exception`, as nothing may treat it as an error that it can handle."""


@contextmanager
def crashing_at(point: str) -> Iterator[None]:
    """Expect whatever runs inside to reach ``POINT`` or ``POINT:NODE`` and end there."""

    def reached(here: str, node: str) -> None:
        assert here in crash.POINTS, here
        if point in (here, f"{here}:{node}"):
            raise CrashError(point)

    with pytest.MonkeyPatch.context() as patched, pytest.raises(CrashError):
        patched.setattr(crash, "crash_at", reached)
        yield


@contextmanager
def doomed(spark: SparkSession) -> Iterator[SparkSession]:
    """A session for what ends there: the next run closes the sessions of the dead one."""
    own = new_session(spark)
    try:
        yield own
    finally:
        close(own)
