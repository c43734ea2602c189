"""Frames that an epoch uses more than once: computed once, and named, so that later queries stay small.

A plan that is used twice is sent twice by Spark Connect, and what is made of it again: an operator's last frame holds
its first ones dozens of times, more than the client can read back. Behind a temporary view a plan is one name.
"""

from __future__ import annotations

from pyspark.sql import DataFrame


class SharedFrames:
    """The shared frames of one epoch.

    Parameters
    ----------
    name
        Start of the views' names; no other epoch of the session has it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._views: list[tuple[DataFrame, str]] = []

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed once and named."""
        view = f"{self._name}_{len(self._views)}"
        kept = anew(frame)
        kept.createOrReplaceTempView(view)
        self._views.append((kept, view))
        return frame.sparkSession.table(view)

    def release(self) -> None:
        """Free them all."""
        for frame, view in reversed(self._views):
            frame.sparkSession.catalog.dropTempView(view)
            frame.unpersist()
        self._views.clear()


def anew(frame: DataFrame) -> DataFrame:
    """Persist a frame without anything that a killed run has left of it.

    An engine caches by plan and for all sessions, and the next run of a planned epoch has the plan of the killed one.
    Had a broadcast of that one been cancelled, then its failure would be cached as well
    (``tests/infra/test_shared_frames.py``).
    """
    return frame.unpersist().persist()
