"""The context that every stage of an epoch gets: locations of a pipeline's epochs, and sessions that compute them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Literal

from pyspark.sql import SparkSession

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.fence import raise_fence
from rivermeet.infra.delta.io import last_note, set_properties
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.location import is_local
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.node_lock import Lease, NodeLock, identity, lock_folder
from rivermeet.pipelines import Node, limits

Folds = Literal["never", "run", "due"]
"""When tables are folded: not at all, in each run that commits, or when due (``infra/epochs/stages/fold.py``)."""


@dataclass(frozen=True)
class Quality:
    """Where verdicts are stored, with the lock of its writers, and which engine judges.

    DuckDB runs in the run's process, with ``memory`` for one evaluation, such as ``1g``, and the folder ``spill`` for
    the rest.
    """

    table: str
    lock: Path
    judge: Literal["auto", "duckdb", "spark"]
    memory: str
    spill: Path


@dataclass
class EpochContext:
    """Settings, sessions and paths of one pipeline's epochs.

    ``session`` and ``fold_session`` open a session when it is first needed, as a run that finds nothing new needs none;
    the second is for MERGEs only. ``locks`` is the folder of the home's locks for tables that are not on a local disk,
    ``engine`` that of the warm engine that the sessions are on, if it is one. Epochs without ``quality`` are not judged
    (`rivermeet replay`).
    """

    tables: str
    log: EpochLog
    locks: Path
    session: Callable[[], SparkSession]
    fold_session: Callable[[], SparkSession]
    folds: Folds = "due"
    engine: Path | None = None
    quality: Quality | None = None
    lease_seconds: float = 60.0
    _large: Lock = field(default_factory=Lock, repr=False)

    def room(self, records: int) -> AbstractContextManager[object]:
        """Reserve room in the engine for an epoch of that many records; large epochs run one at a time."""
        return self._large if records > limits.KEPT_RECORDS else nullcontext()

    def paths(self, node: Node) -> NodeTables:
        """Locations of the node's tables."""
        return NodeTables(self.tables, node.pipeline.name, node.name)

    def read_note(self, node: Node) -> CommitNote | None:
        """The note of the node's newest commit."""
        found = last_note(self.paths(node).changelog)
        return found and found[1]

    def lock(self, node: Node) -> NodeLock:
        """The lock that a run of the node takes: a second run waits for the first."""
        folder = lock_folder(self.tables, node.pipeline.name, node.name, self.locks)
        if is_local(self.tables):
            return NodeLock(folder)
        url = f"{self.tables.rstrip('/')}/{node.pipeline.name}/{node.name}"
        paths = self.paths(node)

        def take_over(token: int) -> None:
            for path in (paths.changelog, paths.table):
                raise_fence(path, token, lambda path, given: set_properties(self.session(), path, given))

        return NodeLock(folder, lambda: Lease(url, self.lease_seconds, identity(self.locks)), take_over)

    def use_sessions(self, node: Node) -> SparkSession:
        """The session for the node's frames; the lock records it, for the run that takes the lock after a kill."""
        spark = self.session()
        self.lock(node).uses(self.engine, [spark, self.fold_session()])
        return spark
