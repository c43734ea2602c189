"""The way of an epoch: Plan → Write → Judge → Commit → Record, one function for every way to run a node; then its fold.

Dagster's assets, the command line, replay and the benchmarks call `run_epoch` and only translate what it gives. Each
stage is a value with its inputs; its ``run`` gives an outcome and changes nothing of another stage's:

| stage | file | reads | gives |
|---|---|---|---|
| plan | ``infra/epochs/stages/plan.py`` | epoch log, newest commits of node and inputs | the plan, in the log |
| write | ``infra/epochs/stages/write.py`` | what the plan pins | the epoch's rows, numbered and counted |
| judge | ``assets/quality/judge.py`` | the rows, the pinned inputs | what was found; a refused epoch ends here |
| commit | ``infra/epochs/stages/commit.py`` | the rows | side tables, then the one commit that *is* the epoch |
| record | ``infra/epochs/stages/record.py`` | all outcomes | measurements, then verdicts |

Off this path: `fold_node` (``assets/quality/judge_committed.py``) folds the node's table when that is due, and judges
it. No epoch waits for it, because what reads a table reads the changelog's tail on top of it.

Killed anywhere, the next run ends the same. Before the commit nothing counts; after it, only caches are behind:

| killed | left behind | the next run |
|---|---|---|
| before the plan is logged | nothing | plans afresh |
| before the commit | a plan, perhaps side-table rows | runs the plan as it stands; side writes are skipped as done |
| before the record | a committed epoch without measurements or verdicts | judges it, then goes on with what is new |
| before the fold | a table that is behind | folds it, over as many epochs as there are |
| before the fold's verdicts | a folded table without them | judges it |

An epoch that its audit refuses keeps its plan, so that the next run refuses it again, unless what was wrong was fixed
or a person decided (``assets/refused/states.py``).

Why: ``docs/decisions/one-commit-is-the-epoch.md``. Held by ``tests/infra/epochs/test_kill.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rivermeet.assets.quality.judge import Judge
from rivermeet.assets.quality.judge_committed import FoldOutcome, Judgement, fold_node, judge_epoch, judge_missed
from rivermeet.expectations.results import InvariantResult
from rivermeet.infra import crash
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.stages.commit import Commit
from rivermeet.infra.epochs.stages.fold import Fold, finish
from rivermeet.infra.epochs.stages.plan import Plan, Planned, Rebuild, log_plan, put_aside
from rivermeet.infra.epochs.stages.record import Record
from rivermeet.infra.epochs.stages.write import Write
from rivermeet.infra.epochs.step import EpochResult, Step
from rivermeet.infra.refusal import EpochRefusedError


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run of a node.

    Attributes
    ----------
    result
        What the epoch did; None where nothing was new.
    judgement
        What was judged of it; None where epochs are not judged.
    missed
        What was judged of the epoch before, whose run was killed before its verdicts.
    folded
        What the fold of the node's table did; None where none was due.
    ended
        When its verdicts were recorded, before any fold: seconds of the process's monotonic clock.
    """

    result: EpochResult | None = None
    judgement: Judgement | None = None
    missed: Judgement | None = None
    folded: FoldOutcome | None = None
    ended: float = field(default_factory=time.monotonic)


def run_epoch(
    context: EpochContext,
    step: Step,
    run_id: str = "",
    rebuild: Rebuild | None = None,
    committed: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run one epoch of a node, from its plan to its verdicts.

    Parameters
    ----------
    step
        The node's part: how it plans and computes.
    run_id
        Kept with verdicts and with rows that are refused.
    rebuild
        Recompute the node from offset 0 instead of going on.
    committed
        Called once the epoch is committed, before its record and its verdicts: what reads the node may start.

    Raises
    ------
    EpochRefusedError
        Where the epoch must not be committed, or not even be planned (`ExternalModificationError`).
    """
    try:
        return _run_epoch(context, step, run_id, rebuild, committed)
    except Exception:
        step.give_up(lambda node: not context.lock(node).is_free)
        raise


def _run_epoch(
    context: EpochContext, step: Step, run_id: str, rebuild: Rebuild | None, on_commit: Callable[[], None]
) -> Outcome:
    clock, node = Clock(), step.node
    # Held until the verdicts are recorded: to a second run the epoch would look like that of a killed one.
    with context.lock(node).hold():
        with clock.phase("plan"):
            planned = Plan(step, rebuild).run(context)
        missed = None
        if planned.base is not None:
            # A run that was killed after its commit has left that undone.
            finish(context, node, planned.base)
            missed = judge_missed(context, node, planned.base.epoch, run_id)
        if planned.plan is None:
            return Outcome(missed=missed)
        crash.crash_at("planned", node.name)
        stages = stages_of(step, planned.plan, planned, run_id)
        try:
            results, committed = _write_to_commit(context, stages, clock)
        except EpochRefusedError as refusal:
            if refusal.replan:
                put_aside(context, planned.plan, str(refusal))
            raise
        except Exception as error:
            with clock.phase("plan"):
                plan = _without_failing_records(context, step, planned.plan, error)
            results, committed = _write_to_commit(context, stages_of(step, plan, planned, run_id), clock)
        on_commit()
        result = stages.record.run(context, committed, clock.seconds)
        crash.crash_at("recorded", node.name)
        if context.quality is None:
            return Outcome(result, missed=missed)
        judgement = judge_epoch(context, node, committed.plan, committed.version, results, run_id)
        return Outcome(result, judgement, missed)


def run_node(context: EpochContext, step: Step, run_id: str = "", rebuild: Rebuild | None = None) -> Outcome:
    """Run one epoch of a node, then the fold of its table, if that is due."""
    outcome = run_epoch(context, step, run_id, rebuild)
    return replace(outcome, folded=fold_node(context, step.node, run_id))


class Stages(NamedTuple):
    """What is left of an epoch once it is planned, in order; the fold comes after it, if it is due."""

    write: Write
    judge: Judge
    commit: Commit
    record: Record
    fold: Fold


def stages_of(step: Step, plan: EpochPlan, planned: Planned, run_id: str = "") -> Stages:
    """The stages of a planned epoch."""
    node = step.node
    return Stages(Write(step, plan), Judge(node, run_id), Commit(step, plan, planned.base), Record(node), Fold(node))


def _write_to_commit(
    context: EpochContext, stages: Stages, clock: Clock
) -> tuple[Sequence[InvariantResult], EpochResult]:
    plan = stages.write.plan
    name = f"{plan.pipeline}_{plan.node}_{plan.epoch}"
    with context.room(plan.records), SharedFrames(name, plan.records) as shared:
        with clock.phase("compute"):
            written = stages.write.run(context, shared)
        with clock.phase("audit"):
            results, decision = stages.judge.run(context, written)
        with clock.phase("commit"):
            committed = stages.commit.run(context, written, decision)
        return results, committed


def _without_failing_records(context: EpochContext, step: Step, plan: EpochPlan, error: Exception) -> EpochPlan:
    """The plan without the records that an expression fails on, logged; the error again where there are none."""
    found = step.without_failing_records(context.session(), plan, error)
    if found is None:
        raise error
    put_aside(context, plan, f"epoch {plan.epoch} failed: {found.skipped[-1].reason}")
    committed = plan.epoch - 1
    found = found.model_copy(update={"epoch": context.log.next_epoch(plan.node, committed)})
    if plan.replaces:
        found = found.model_copy(update={"since": found.epoch})
    return log_plan(context, step.node, found, committed)


@dataclass
class Clock:
    """Seconds spent in each phase of an epoch."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add what the block takes."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start
