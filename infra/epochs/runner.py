"""The commit protocol: plan, compute, audit, commit, fold, measure. Killed anywhere, the next run ends the same.

The one Delta commit on the output changelog *is* the epoch: rows and position become visible together. Before it,
nothing counts (side tables carry the epoch and count when it is committed); after it, only caches are behind:

| killed | left behind | the next run |
|---|---|---|
| before the plan is logged | nothing | plans afresh |
| before the commit | a plan, perhaps side-table rows | runs the plan as it stands; side writes are skipped as done |
| before the fold | a committed epoch, a table behind it | folds first, from the changelog |
| after the fold | a committed epoch without measurements | goes on with what is new |

An epoch that its audit refuses keeps its plan, so that the next run refuses it again, unless what was wrong was mended
or a person decided (``infra/epochs/held.py``): a released epoch is committed as it is, a dropped one without its rows.
The decision is in the log before the run, and the run is one like any other.

Why: ``docs/decisions/one-commit-is-the-epoch.md``. Held by ``tests/infra/epochs/test_kill.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from infra import crash
from infra.delta.fold import fold, fold_anew
from infra.delta.io import append, last_note, protect
from infra.delta.layout import NodeTables
from infra.delta.lines import opened
from infra.delta.side_tables import write_side
from infra.engine.shared_frames import SharedFrames
from infra.engine.shuffles import fit_shuffles
from infra.epochs.declaration import declared, refuse_changed
from infra.epochs.guard import ForeignChangeError, refuse_foreign_node
from infra.epochs.held import decision_on
from infra.epochs.log import EpochLog
from infra.epochs.node_lock import NodeLock, lock_folder
from infra.epochs.plan import CommitNote, EpochPlan
from infra.epochs.refusal import EpochRefusedError
from infra.epochs.rows import Totals, later, totals, with_offsets
from infra.epochs.step import EpochResult, Step
from pipelines import Node


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
    engine
        Folder of the warm engine that the sessions are on, if it is one.
    """

    tables: str
    log: EpochLog
    locks: Path
    session: Callable[[], SparkSession]
    fold_session: Callable[[], SparkSession]
    folds: bool = True
    engine: Path | None = None

    def paths(self, node: Node) -> NodeTables:
        """Where the node's tables lie."""
        return NodeTables(self.tables, node.pipeline.name, node.name)

    def lock(self, node: Node) -> NodeLock:
        """What a run of the node holds: a second one waits for the first."""
        return NodeLock(lock_folder(self.tables, node.pipeline.name, node.name, self.locks))

    def run(self, step: Step) -> EpochResult | None:
        """One epoch of ``step``, or None where nothing is new.

        Raises
        ------
        EpochRefusedError
            Where the epoch must not be committed, or not even be planned (`ForeignChangeError`).
        """
        node, paths, lock = step.node, self.paths(step.node), self.lock(step.node)
        with lock.held():
            clock = _Clock()
            with clock.phase("plan"):
                found = last_note(paths.changelog)
                version, previous = found or (None, None)
                committed = previous.epoch if previous else 0
                plan = self.log.open_plan(node.name, committed)
                if plan is None or not plan.replaces:
                    refuse_foreign_node(paths, node.is_table and self.folds)
                    self._refuse_older_copy(paths, committed)
                    if previous is not None:
                        refuse_changed(node, previous, version)
                if plan is not None:
                    refuse_changed(node, plan)
                if previous is not None and previous.since > 1:
                    # A rebuild that was killed right after its commit has not come to this.
                    protect(self.session, paths.changelog)
                plan = self._standing(step, plan) or self._planned(step, previous, version)
            replaces = plan is not None and plan.replaces
            if previous is not None and not replaces:
                self._fold(step, previous, lock)
            if plan is None:
                return None
            crash.reached("planned", node.name)
            return self._executed(step, plan, None if replaces else previous, clock, lock)

    def rebuild(self, step: Step, grace: int | None = None) -> EpochResult | None:
        """Recompute a node from offset 0 into a new incarnation; None where its inputs have nothing yet.

        It is an epoch like any other, but that its commit replaces the changelog: plans that were still to be run are
        put aside, and whatever reads the node follows in its own next epoch.

        Parameters
        ----------
        grace
            Milliseconds that stand for the declared grace as long as the new incarnation lasts.
        """
        node, paths, lock = step.node, self.paths(step.node), self.lock(step.node)
        with lock.held():
            clock = _Clock()
            with clock.phase("plan"):
                found = last_note(paths.changelog)
                committed = found[1].epoch if found else 0
                for epoch, plan in self.log.open_plans(node.name, committed).items():
                    self._put_aside(plan, f"epoch {epoch} was put aside by a rebuild")
                crash.reached("refused", node.name)
                plan = step.plan(None, None, self.log.next_epoch(node.name, committed))
                if plan is None:
                    return None
                last = max(found[1].incarnation if found else 0, self.log.last_incarnation(node.name))
                plan = self._logged(node, plan.anew(last + 1, grace), committed)
            crash.reached("planned", node.name)
            return self._executed(step, plan, None, clock, lock)

    def fold_anew(self, step: Step) -> bool:
        """Replace a node's table by the fold of its changelog; whether it has one."""
        paths, lock = self.paths(step.node), self.lock(step.node)
        with lock.held():
            found = last_note(paths.changelog)
            if found is None or not step.node.is_table:
                return False
            refuse_foreign_node(paths, False)
            lock.uses(self.engine, [self.session(), self.fold_session()])
            fold_anew(self.fold_session, paths, found[1])
            return True

    def _standing(self, step: Step, plan: EpochPlan | None) -> EpochPlan | None:
        """A plan that was logged and not run, unless it has to be passed over."""
        if plan is not None and (why := step.check(plan)) is not None:
            self._put_aside(plan, why)
            return None
        return plan

    def _put_aside(self, plan: EpochPlan, why: str) -> None:
        self.log.write(plan.node, plan.incarnation, plan.epoch, "refused", why)

    def _planned(self, step: Step, previous: CommitNote | None, version: int | None) -> EpochPlan | None:
        committed = previous.epoch if previous else 0
        plan = step.plan(previous, version, self.log.next_epoch(step.node.name, committed))
        return None if plan is None else self._logged(step.node, plan, committed)

    def _logged(self, node: Node, plan: EpochPlan, committed: int) -> EpochPlan:
        plan = plan.model_copy(update={"declared": declared(node)})
        self.log.write(plan.node, plan.incarnation, plan.epoch, "plan", plan.model_dump_json())
        # A rival may have planned the same epoch first, and then this write was skipped: what stands counts.
        standing = self.log.open_plan(plan.node, committed)
        assert standing is not None
        return standing

    def _refuse_older_copy(self, paths: NodeTables, committed: int) -> None:
        beyond = max(self.log.lines(paths.node, "measured", committed), default=0)
        if beyond:
            raise ForeignChangeError(
                f"changelog of '{paths.pipeline}.{paths.node}' ends with epoch {committed}, but epoch {beyond} was "
                f"committed: an older copy is in its place, or it was removed; put the newer one back, or run "
                f"`{paths.rebuild}` (table: {paths.changelog})"
            )

    def _executed(
        self, step: Step, plan: EpochPlan, previous: CommitNote | None, clock: _Clock, lock: NodeLock
    ) -> EpochResult:
        """The plan's epoch, or where a record makes that fail, the one of a plan that leaves it out."""
        try:
            return self._execute(step, plan, previous, clock, lock)
        except EpochRefusedError:
            raise
        except Exception as error:
            with clock.phase("plan"):
                mended = step.without_poison(self.session(), plan, error)
            if mended is None:
                raise
            self._put_aside(plan, f"epoch {plan.epoch} failed: {mended.skipped[-1].reason}")
            committed = plan.epoch - 1
            mended = mended.model_copy(update={"epoch": self.log.next_epoch(plan.node, committed)})
            if plan.replaces:
                mended = mended.model_copy(update={"since": mended.epoch})
            return self._execute(step, self._logged(step.node, mended, committed), previous, clock, lock)

    def _execute(
        self, step: Step, plan: EpochPlan, previous: CommitNote | None, clock: _Clock, lock: NodeLock
    ) -> EpochResult:
        paths, spark = self.paths(step.node), self.session()
        lock.uses(self.engine, [spark, self.fold_session()])
        decision = decision_on(self.log, plan)
        fit_shuffles(spark, plan.records)
        shared = SharedFrames(f"{paths.pipeline}_{paths.node}_{plan.epoch}", plan.records)
        try:
            with clock.phase("compute"):
                frames = step.compute(spark, plan, shared)
                rows = shared.keep(with_offsets(frames.rows, plan))
                sides = {name: shared.keep(frame) for name, frame in frames.sides.items()}
                counts = totals(rows, sides, frames.timed)
            crash.reached("computed", step.node.name)
            with clock.phase("audit"):
                audit = self._audited(step, plan, rows, counts)
            if decision is not None and decision.drops:
                rows, counts = rows.where("false"), counts.without_rows()
            written = {name: frame for name, frame in sides.items() if counts.sides[name]}
            if frames.memory is not None:
                written["memory"] = frames.memory
            for name, frame in written.items():
                write_side(frame, getattr(paths, name), paths.app_id(name, plan.incarnation), plan)
            crash.reached("sides-written", step.node.name)
            note = CommitNote(
                incarnation=plan.incarnation,
                epoch=plan.epoch,
                ends={**plan.ends, **counts.ends},
                times=later(previous.times if previous else {}, counts.times),
                stream_time=later(plan.stream_time, counts.stream_time),
                consumed={side: part.upto for side, part in plan.inputs.items()},
                incarnations={side: part.incarnation for side, part in plan.inputs.items()},
                since=plan.since,
                declared=plan.declared,
                grace=plan.grace,
                skipped=plan.skipped,
                decided=decision,
            )
            if (why := step.check(plan)) is not None:
                raise EpochRefusedError(f"'{paths.pipeline}.{paths.node}', epoch {plan.epoch}: {why}; run it again")
            with clock.phase("commit"):
                self._commit(paths, plan, rows, note)
            committed_at = int(time.time() * 1000)
        finally:
            shared.release()
        crash.reached("rebuilt" if plan.replaces else "committed", step.node.name)
        with clock.phase("fold"):
            self._fold(step, note, lock)
        crash.reached("folded", step.node.name)
        committed = opened(paths.changelog)
        assert committed is not None
        result = EpochResult(
            plan,
            committed.version(),
            note,
            counts.rows,
            counts.tombstones,
            counts.sides,
            clock.seconds,
            audit,
            counts.one_sided,
            committed_at,
            max((counts.stream_time or counts.times).values(), default=None),
        )
        line = json.dumps(result.measured())
        self.log.write(step.node.name, plan.incarnation, plan.epoch, "measured", line)
        return result

    def _commit(self, paths: NodeTables, plan: EpochPlan, rows: DataFrame, note: CommitNote) -> None:
        app_id = paths.app_id("changelog", plan.incarnation)
        append(rows, paths.changelog, app_id, plan.epoch, note=note, replace=plan.replaces)
        found = last_note(paths.changelog)
        if found is None or found[1].epoch < plan.epoch:
            raise ForeignChangeError(
                f"changelog of '{paths.pipeline}.{paths.node}': Delta skipped epoch {plan.epoch}, which it takes for "
                f"committed: the table was put back to an earlier version meanwhile; run `{paths.rebuild}` "
                f"(table: {paths.changelog})"
            )

    def _audited(self, step: Step, plan: EpochPlan, rows: DataFrame, counts: Totals) -> Sequence[Any]:
        spark = rows.sparkSession
        try:
            return step.audit(spark, plan, rows, {"rows": counts.rows, **counts.sides})
        except EpochRefusedError as refusal:
            if refusal.replan:
                self._put_aside(plan, str(refusal))
            raise

    def _fold(self, step: Step, upto: CommitNote, lock: NodeLock) -> None:
        if not step.node.is_table or not self.folds:
            return
        paths = self.paths(step.node)

        def session() -> SparkSession:
            lock.uses(self.engine, [self.session(), self.fold_session()])
            return self.fold_session()

        fold(session, paths, list(step.node.key), upto)


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
