"""What a node is to the commit protocol: plans, frames, verdicts, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.plan import CommitNote, EpochPlan
from rivermeet.pipelines import Node

Accept = Callable[[int, Mapping[str, int]], None]
"""Takes the counts of an epoch's rows and of its side tables'; raises `EpochRefusedError` where they are too bad."""


@dataclass(frozen=True)
class StepFrames:
    """What a step computes.

    Rows with ``sequence``, side tables by name, the frames that carry stream time, what the operator remembers, and the
    step's own condition on the counts. Side tables that are known to get no rows are named in ``without_rows``.
    ``counted`` is what else a person should know the number of, by name, such as records that were passed over.
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
    """What one epoch did; counts of rows, seconds per phase.

    ``one_sided`` is None where the rows do not show it. ``committed_at`` is the wall clock at the commit and
    ``newest_event`` the highest event time that the epoch took in, or gave where no operator keeps stream time (ms).
    ``staged`` is False where the rows were appended by Spark.
    """

    plan: EpochPlan
    version: int
    note: CommitNote
    rows: int
    tombstones: int
    sides: Mapping[str, int]
    seconds: Mapping[str, float]
    one_sided: int | None = None
    committed_at: int | None = None
    newest_event: int | None = None
    staged: bool = True

    def measured(self) -> dict[str, Any]:
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
            "files": len(self.plan.files),
            "delivered_at": max((file.modified_ms for file in self.plan.files), default=None),
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

    def check(self, plan: EpochPlan) -> str | None:
        """Why a plan that was logged must be passed over, None where it stands.

        Raises `ExternalModificationError` where what it pins is gone.
        """
        ...

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """A function of the plan alone."""
        ...

    def give_up(self, is_running: Callable[[Node], bool]) -> None:
        """Leave nothing behind elsewhere of an epoch that came to nothing.

        Parameters
        ----------
        is_running
            Whether somebody runs an epoch of a node now.
        """
        ...

    def without_failing_records(self, spark: SparkSession, plan: EpochPlan, error: Exception) -> EpochPlan | None:
        """The plan without the records that make it fail; None where the error is of no record."""
        ...
