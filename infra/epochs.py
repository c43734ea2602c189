"""The commit protocol: plan, compute, audit, commit, fold, measure. Killed anywhere, the next run ends the same.

The one Delta commit on the output changelog *is* the epoch: rows and position become visible together. Before it,
nothing counts (side tables carry the epoch and count when it is committed); after it, only caches are behind:

| killed | left behind | the next run |
|---|---|---|
| before the plan is logged | nothing | plans afresh |
| before the commit | a plan, perhaps side-table rows | runs the plan as it stands; side writes are skipped as done |
| before the fold | a committed epoch, a table behind it | folds first, from the changelog |
| after the fold | a committed epoch without measurements | goes on with what is new |

Source: DESIGN section 6. Held by ``tests/infra/test_kill.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from infra import crash
from infra.delta_io import append, last_note
from infra.delta_lines import opened
from infra.epoch_log import EpochLog
from infra.fold import fold, looked_up
from infra.layout import NodeTables
from infra.plan import CommitNote, EpochPlan, Offsets
from infra.shared_frames import SharedFrames
from pipelines import Node

Audit = Callable[[SparkSession, EpochPlan, DataFrame, Mapping[str, int]], Sequence[Any]]
"""Judges rows before they are committed, given their counts; raises `EpochRefusedError` where they must not be."""


class EpochRefusedError(RuntimeError):
    """An epoch that must not be committed; the message says which rule refused it."""

    replan = False
    """Whether the plan is passed over, so that mended inputs can be planned anew."""


@dataclass(frozen=True)
class StepFrames:
    """What a step computes.

    Rows with ``sequence``, side tables by name, the frames that carry stream time, and what the operator remembers.
    """

    rows: DataFrame
    sides: Mapping[str, DataFrame] = field(default_factory=dict)
    timed: Sequence[DataFrame] = ()
    memory: DataFrame | None = None


@dataclass(frozen=True)
class EpochResult:
    """What one epoch did; counts of rows, seconds per phase."""

    plan: EpochPlan
    version: int
    note: CommitNote
    rows: int
    tombstones: int
    sides: Mapping[str, int]
    seconds: Mapping[str, float]
    audit: Sequence[Any] = ()

    def measured(self) -> dict[str, Any]:
        """The line of the epoch log."""
        return {
            "epoch": self.plan.epoch,
            "rows_in": {side: part.records for side, part in self.plan.inputs.items()},
            "files": len(self.plan.files),
            "rows": self.rows,
            "tombstones": self.tombstones,
            **self.sides,
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

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """A function of the plan alone."""
        ...

    def audit(self, spark: SparkSession, plan: EpochPlan, rows: DataFrame, counts: Mapping[str, int]) -> Sequence[Any]:
        """Judge the rows before they are committed; `EpochRefusedError` where they must not be."""
        ...

    def flatten(self, changelog: DataFrame) -> DataFrame:
        """The last row per key as columns of the folded table, with ``_deleted``."""
        ...


@dataclass
class EpochRunner:
    """Runs epochs of one pipeline's nodes on one engine session.

    Parameters
    ----------
    session
        Gives the session when it is first needed; a run that finds nothing new needs none.
    fold_session
        Gives a session that only MERGEs use.
    folds
        Whether results are folded into their tables; they can be at any later time.
    """

    tables: str
    log: EpochLog
    locks: Path
    session: Callable[[], SparkSession]
    fold_session: Callable[[], SparkSession]
    incarnation: int = 1
    folds: bool = True

    def paths(self, node: Node) -> NodeTables:
        """Where the node's tables lie."""
        return NodeTables(self.tables, node.pipeline.name, node.name)

    def run(self, step: Step) -> EpochResult | None:
        """One epoch of ``step``, or None where nothing is new. A second run of the node waits for the first."""
        paths = self.paths(step.node)
        self.locks.mkdir(parents=True, exist_ok=True)
        with FileLock(self.locks / f"{paths.pipeline}.{paths.node}.lock"):
            clock = _Clock()
            with clock.phase("plan"):
                found = last_note(paths.changelog)
                version, previous = found or (None, None)
                plan = self._planned(step, previous, version)
            if plan is None:
                if previous is not None:
                    self._fold(step, previous)
                return None
            crash.reached("planned", step.node.name)
            if previous is not None:
                self._fold(step, previous)
            return self._execute(step, plan, previous, clock)

    def _planned(self, step: Step, previous: CommitNote | None, version: int | None) -> EpochPlan | None:
        node, committed = step.node.name, previous.epoch if previous else 0
        plan = self.log.open_plan(node, committed)
        if plan is None:
            epoch = self.log.next_epoch(node, committed)
            plan = step.plan(previous, version, epoch)
            if plan is None:
                return None
            body = plan.model_dump_json()
            self.log.write(node, self.incarnation, epoch, "plan", body)
            # A rival may have planned the same epoch first, and then this write was skipped: what stands counts.
            plan = self.log.open_plan(node, committed)
        return plan

    def _execute(self, step: Step, plan: EpochPlan, previous: CommitNote | None, clock: _Clock) -> EpochResult:
        paths, spark = self.paths(step.node), self.session()
        shared = SharedFrames(f"{paths.pipeline}_{paths.node}_{plan.epoch}")
        try:
            with clock.phase("compute"):
                frames = step.compute(spark, plan, shared)
                rows = shared.keep(with_offsets(frames.rows, plan))
                sides = {name: shared.keep(frame) for name, frame in frames.sides.items()}
                totals = _totals(rows, sides, frames.timed)
            crash.reached("computed", step.node.name)
            with clock.phase("audit"):
                audit = self._audited(step, plan, rows, totals)
            for name, frame in sides.items():
                if totals.sides[name]:
                    side = frame.withColumn("epoch", F.lit(plan.epoch).cast("bigint"))
                    app_id = paths.app_id(name, self.incarnation)
                    append(side, getattr(paths, name), app_id, plan.epoch)
            if frames.memory is not None:
                memory = frames.memory.withColumn("epoch", F.lit(plan.epoch).cast("bigint"))
                append(memory, paths.memory, paths.app_id("memory", self.incarnation), plan.epoch)
            crash.reached("sides-written", step.node.name)
            note = CommitNote(
                incarnation=self.incarnation,
                epoch=plan.epoch,
                ends={**plan.ends, **totals.ends},
                times=_later(previous.times if previous else {}, totals.times),
                stream_time=_later(plan.stream_time, totals.stream_time),
                consumed={side: part.upto for side, part in plan.inputs.items()},
            )
            with clock.phase("commit"):
                append(rows, paths.changelog, paths.app_id("changelog", self.incarnation), plan.epoch, note=note)
        finally:
            shared.release()
        crash.reached("committed", step.node.name)
        with clock.phase("fold"):
            self._fold(step, note)
        crash.reached("folded", step.node.name)
        committed = opened(paths.changelog)
        assert committed is not None
        result = EpochResult(
            plan, committed.version(), note, totals.rows, totals.tombstones, totals.sides, clock.seconds, audit
        )
        line = json.dumps(result.measured())
        self.log.write(step.node.name, self.incarnation, plan.epoch, "measured", line)
        return result

    def _audited(self, step: Step, plan: EpochPlan, rows: DataFrame, totals: _Totals) -> Sequence[Any]:
        spark = rows.sparkSession
        try:
            return step.audit(spark, plan, rows, {"rows": totals.rows, **totals.sides})
        except EpochRefusedError as refusal:
            if refusal.replan:
                self.log.write(step.node.name, self.incarnation, plan.epoch, "refused", str(refusal))
            raise

    def _fold(self, step: Step, upto: CommitNote) -> None:
        if step.node.is_table and self.folds:
            paths = self.paths(step.node)
            fold(self.fold_session, paths, list(step.node.key), step.flatten, upto)


def with_offsets(rows: DataFrame, plan: EpochPlan) -> DataFrame:
    """Rows with ``offset`` (dense, going on where the changelog ends) and ``epoch`` in place of ``sequence``."""
    order = Window.partitionBy("partition").orderBy("sequence")
    last = F.coalesce(F.expr(looked_up(plan.ends)), F.lit(-1))
    offset = (last + F.row_number().over(order)).cast("bigint")
    front = ["key", "value", "timestamp", "partition"]
    rest = [c for c in rows.columns if c not in (*front, "sequence")]
    numbered = rows.withColumn("offset", offset)
    return numbered.select(*front, "offset", F.lit(plan.epoch).cast("bigint").alias("epoch"), *rest)


@dataclass(frozen=True)
class _Totals:
    rows: int
    tombstones: int
    ends: Offsets
    times: Offsets
    stream_time: Offsets
    sides: Mapping[str, int]


def _totals(rows: DataFrame, sides: Mapping[str, DataFrame], timed: Sequence[DataFrame]) -> _Totals:
    """Counts of an epoch, in one pass that also fills the cache of its rows."""

    def summed(frame: DataFrame, what: str, partition: str, end: str, time: str, nulls: str) -> DataFrame:
        return frame.groupBy(F.expr(partition).cast("int").alias("partition")).agg(
            F.lit(what).alias("what"),
            F.count("*").alias("rows"),
            F.expr(nulls).cast("bigint").alias("nulls"),
            F.expr(end).cast("bigint").alias("end"),
            F.expr(time).cast("bigint").alias("time"),
        )

    parts = [summed(rows, "rows", "partition", "max(offset)", "max(timestamp)", "count_if(value IS NULL)")]
    parts += [summed(frame, f"side:{name}", "0", "0", "0", "0") for name, frame in sides.items()]
    parts += [summed(frame, "time", "partition", "0", "max(timestamp)", "0") for frame in timed]
    lines = reduce(DataFrame.unionByName, parts).collect()
    own = [line for line in lines if line.what == "rows"]
    stream_time: Offsets = {}
    for line in lines:
        if line.what == "time":
            stream_time = _later(stream_time, {line.partition: line.time})
    return _Totals(
        rows=sum(line.rows for line in own),
        tombstones=sum(line.nulls for line in own),
        ends={line.partition: line.end for line in own},
        times={line.partition: line.time for line in own},
        stream_time=stream_time,
        sides={name: sum(line.rows for line in lines if line.what == f"side:{name}") for name in sides},
    )


def _later(one: Offsets, other: Offsets) -> Offsets:
    return {p: max(t for t in (one.get(p), other.get(p)) if t is not None) for p in {*one, *other}}


class _Clock:
    """Seconds spent in each phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start
