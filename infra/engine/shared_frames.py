"""Frames that an epoch uses more than once: computed once, and cut off from what they are made of.

A plan that is used twice is sent twice by Spark Connect, and what is made of it again: an operator's last frame holds
its first ones dozens of times, more than the client can read back. Two ways to cut it off:

| records of the epoch | how | why |
|---|---|---|
| up to three million | local checkpoint | its plan ends there, and its rows are kept as they are |
| more | cache, behind a temporary view | kept by column it takes half the memory, and planning does not count |

Behind a cache Spark plans all that came before, again for each query: an epoch of 10,000 changes took a sixth less time
with checkpoints, in trials of one hour. A cache costs as much as sorting, as it puts rows in columns: a backlog of two
million records in streams was computed in 0.86 of the time with checkpoints, in 400 MB more of memory.

Of many records, what is cheap to make could be read from files again in less than either takes, as each use reads its
own columns. So only what is dear to make is kept of them (``keep_if_few`` is for the rest): the same backlog was
computed in 0.7 of the time. Of a tiny epoch what has few steps is computed where it is used (``keep_if_many``), as a
checkpoint is a request of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from rivermeet.pipelines import limits
from rivermeet.records.known_schemas import like


class SharedFrames:
    """The shared frames of one epoch.

    Parameters
    ----------
    name
        Start of the views' names; no other epoch of the session has it.
    records
        The number of records of the epoch; None if unknown.
    """

    def __init__(self, name: str, records: int | None = None) -> None:
        self._name = name
        self._few = records is not None and records <= limits.KEPT_RECORDS
        self._checkpointed = records is not None and records <= limits.CHECKPOINTED_RECORDS
        self._tiny = records is not None and records <= limits.RECOMPUTED_RECORDS
        self._checkpoints: list[DataFrame] = []
        self._views: list[tuple[DataFrame, str]] = []

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed once."""
        if self._checkpointed:
            with _active(frame.sparkSession):
                kept = frame.localCheckpoint(eager=False)
            self._checkpoints.append(kept)
            return like(kept, frame)
        view = f"{self._name}_{len(self._views)}"
        kept = persist_again(frame)
        kept.createOrReplaceTempView(view)
        self._views.append((kept, view))
        return like(frame.sparkSession.table(view), frame)

    def keep_if_few(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed once in a small epoch: for what is read of files, or a filter of what is kept."""
        return self.keep(frame) if self._few else frame

    def keep_if_many(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed again where they are used in a tiny epoch: for what is of files, and sorted once."""
        return frame if self._tiny else self.keep(frame)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Free them all; Spark frees a checkpoint once no frame refers to it."""
        for frame, view in reversed(self._views):
            frame.sparkSession.catalog.dropTempView(view)
            frame.unpersist()
        self._views.clear()
        self._checkpoints.clear()


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make a session the thread's active one meanwhile, as Connect takes every checkpoint for a frame of that.

    A thread's active session is the first one that it opened: one for folds, where another thread has opened the
    process's; or one of an engine that is gone.
    """
    held: Any = getattr(type(spark), "_active_session", None)
    if held is None:  # a driver of its own asks the frame
        yield
        return
    before = getattr(held, "session", None)
    held.session = spark
    try:
        yield
    finally:
        held.session = before


def persist_again(frame: DataFrame) -> DataFrame:
    """Persist a frame without anything that a killed run has left of it.

    An engine caches by plan and for all sessions, and the next run of a planned epoch has the plan of the killed one.
    Had a broadcast of that one been cancelled, then its failure would be cached as well
    (``tests/infra/engine/test_shared_frames.py``). A checkpoint is no cache by plan, and has nothing to forget.
    """
    return frame.unpersist().persist()
