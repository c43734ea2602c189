"""The interface of a node to the commit protocol: plans, frames, conditions and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.pipelines import Node

Accept = Callable[[int, Mapping[str, int]], None]
"""Checks the counts of an epoch's rows and of its side tables; raises `EpochRefusedError` if too many are bad."""


@dataclass(frozen=True)
class StepFrames:
    """The frames that a step computes.

    Rows with ``sequence``, side tables by name, the frames that determine stream time, the operator state, and the
    step's own condition on the counts. Side tables that are known to get no rows are named in ``without_rows``.
    ``counted`` has extra counters to report, by name, such as skipped records.
    """

    rows: DataFrame
    sides: Mapping[str, DataFrame] = field(default_factory=dict)
    timed: Sequence[DataFrame] = ()
    memory: DataFrame | None = None
    accept: Accept | None = None
    without_rows: frozenset[str] = frozenset()
    counted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class EpochResult:
    """The result of one epoch: counts of rows, seconds per phase.

    ``one_sided`` is None if the rows do not show it. ``committed_at`` is the wall clock at the commit and
    ``newest_event`` the highest event time of the epoch's input, or of its output if no operator has stream time (ms).
    ``staged`` is False if the rows were appended by Spark.
    """

    plan: EpochPlan
    version: int
    note: CommitNote
    rows: int
    tombstones: int
    sides: Mapping[str, int]
    seconds: Mapping[str, float] = field(default_factory=dict)
    one_sided: int | None = None
    committed_at: int | None = None
    newest_event: int | None = None
    staged: bool = True

    def to_line(self) -> dict[str, Any]:
        """The line of the epoch log.

        ``consumed`` is per side the input's incarnation and how many of its records have been read so far;
        ``delivered_at`` is when the newest of a source's files was written.
        """
        inputs = self.plan.inputs
        return {
            "epoch": self.plan.epoch,
            "incarnation": self.plan.incarnation,
            "rows_in": {side: part.records for side, part in inputs.items()},
            "consumed": {side: [part.incarnation, part.consumed] for side, part in inputs.items()},
            "files": 0,
            "delivered_at": None,
            **(self.plan.reads.measure() if self.plan.reads is not None else {}),
            "committed_at": self.committed_at,
            "newest_event": self.newest_event,
            "rows": self.rows,
            "tombstones": self.tombstones,
            "one_sided": self.one_sided,
            **self.sides,
            "staged": self.staged,
            "ends": self.note.ends,
            "seconds": {phase: round(s, 3) for phase, s in self.seconds.items()},
        }


class Step(Protocol):
    """One node's part in the protocol."""

    @property
    def node(self) -> Node:
        """The node."""
        ...

    def plan(self, previous: CommitNote | None, version: int | None, epoch: int) -> EpochPlan | None:
        """The next epoch's plan, or None where nothing is new."""
        ...

    def explain_skip(self, plan: EpochPlan) -> str | None:
        """Why a logged plan must be skipped; raises `ExternalModificationError` if a pinned version is gone."""
        ...

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """A function of the plan alone."""
        ...

    def give_up(self, is_running: Callable[[Node], bool]) -> None:
        """Clean up external resources of an epoch that failed, unless an epoch of another node needs them now."""
        ...

    def without_failing_records(self, spark: SparkSession, plan: EpochPlan, error: Exception) -> EpochPlan | None:
        """The plan without the records that make it fail; None if no record causes the error."""
        ...
