"""Write: the operator's rows, a pure function of the plan, numbered and counted in one pass.

    changelog ends at offset 4        rows of the epoch: offsets 5, 6, 7     counted: 3 rows, 1 tombstone, end 7

The rows are computed once, as files that the changelog's log does not name yet: later stages read them there, and the
commit names them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pyspark.sql import DataFrame

from rivermeet.infra import crash
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.side_tables import stage_side
from rivermeet.infra.delta.staged import Staged, discard, read_staged, stage
from rivermeet.infra.engine.fit import fit_compilation, fit_shuffles
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.rows import Totals, totals, with_offsets
from rivermeet.infra.epochs.step import Step
from rivermeet.pipelines import limits
from rivermeet.pipelines.plural import pluralize


@dataclass(frozen=True)
class Written:
    """An epoch's rows before they are committed, and those of its side tables.

    ``staged`` are their files below the changelog, None if only Spark has the rows (``infra/delta/staged.py``), and
    ``staged_sides`` those of the side tables that get rows; ``without_rows`` are known to get none, and have no frame.
    ``memory`` is operator state for the next epoch.
    """

    plan: EpochPlan
    rows: DataFrame
    sides: Mapping[str, DataFrame]
    memory: DataFrame | None
    counts: Totals
    staged: Staged | None = None
    staged_sides: Mapping[str, Staged] = field(default_factory=dict)
    without_rows: Collection[str] = ()

    @property
    def named_files(self) -> Staged | None:
        """The files that the commit names; None if Spark appends the rows."""
        return self.staged if self.staged is not None and self.staged.can_be_named else None


@dataclass(frozen=True)
class Write:
    """The stage of a node's step and its plan."""

    step: Step
    plan: EpochPlan
    name: ClassVar[str] = "write"

    def explain(self, context: EpochContext) -> str:
        """Describe what the stage reads, in one line."""
        parts = [f"{pluralize(part.records, 'record')} of {side}" for side, part in self.plan.inputs.items()]
        parts += [self.plan.reads.description] if self.plan.reads is not None else []
        again = f"; dead letters of epochs {', '.join(map(str, self.plan.retries))}" if self.plan.retries else ""
        rules = f", semantics {self.plan.semantics}" if self.plan.inputs else ""
        return f"{', '.join(parts) or 'no records'}{rules}{again}"

    def run(self, context: EpochContext, shared: SharedFrames) -> Written:
        """Compute, number and count; ``shared`` caches the frames until the epoch is committed.

        Raises `EpochRefusedError` if the step rejects the rows, for example for too many bad ones.
        """
        spark = context.use_sessions(self.step.node)
        fit_shuffles(spark, self.plan.records, self.step.node.partitions)
        if self.plan.reads is None or not self.plan.reads.is_counted:
            fit_compilation(spark, self.plan.rows)
        frames, paths = self.step.compute(spark, self.plan, shared), context.paths(self.step.node)
        rows = with_offsets(frames.rows, self.plan)
        staged = stage(rows, paths.changelog, f"epoch-{self.plan.epoch}", own_schema=self.plan.replaces)
        rows = read_staged(staged, rows) if staged is not None else shared.keep(rows)
        # Not cached: most have no rows, and the others are filters of frames that the step has cached.
        sides = {name: f for name, f in frames.sides.items() if name not in frames.without_rows}
        if self.plan.records > limits.KEPT_RECORDS:
            # To count a side would cost as much as to write it, and neither keeps all cores busy.
            with ThreadPoolExecutor(1) as beside:
                staging = beside.submit(self._stage, sides, paths)
                counts = totals(staged or rows, {}, frames.timed)
            found = staging.result()
            counted = {n: sides[n].count() if one is None else one.count_rows() for n, one in found.items()}
        else:
            counts = totals(staged or rows, sides, frames.timed)
            found, counted = None, counts.sides
        counts = replace(counts, sides=dict.fromkeys(frames.without_rows, 0) | dict(counted))
        crash.crash_at("computed", self.step.node.name)
        if frames.accept is not None:
            frames.accept(counts.rows, counts.sides)
        if found is None:
            found = self._stage({name: f for name, f in sides.items() if counts.sides[name]}, paths)
        for name, one in found.items():
            if one is not None and not counts.sides[name]:
                discard(one)
        staged_sides = {name: one for name, one in found.items() if one is not None and counts.sides[name]}
        counts = replace(counts, sides={**counts.sides, **frames.counted})
        return Written(self.plan, rows, sides, frames.memory, counts, staged, staged_sides, frames.without_rows)

    def _stage(self, sides: Mapping[str, DataFrame], paths: NodeTables) -> Mapping[str, Staged | None]:
        """The sides in files, None where Spark has to append them."""
        return {name: stage_side(side, getattr(paths, name), self.plan) for name, side in sides.items()}
