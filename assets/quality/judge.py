"""Judge: the invariants of an epoch's rows, evaluated on what its plan could see, before anything is committed.

| a blocking invariant is violated | a person has decided | the epoch |
|---|---|---|
| no | | is committed |
| yes | | is refused: its rows go to the quarantine, its inputs stay unread |
| yes | to release these very rows | is committed as it is |
| either | to drop the epoch | is committed without its rows |

Invariants that do not block are judged with the committed tables (``assets/quality/judge_committed.py``); those of a
refused epoch at once. Held by ``tests/assets/quality/test_quarantine.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from assets.quality.relations.affected import Affected, AuditCache, cached
from assets.quality.relations.epoch import epoch_relations
from assets.quality.relations.inputs import InputRelations, effective
from assets.refused.quarantine import enforce
from assets.refused.states import decision_on
from expectations.evaluate import InvariantResult, Judged, evaluate
from expectations.invariants import Invariant, invariants_of
from expectations.rules.touched import early
from infra.engine.shared_frames import SharedFrames
from infra.epochs.context import EpochContext
from infra.epochs.inputs import PinnedInputs
from infra.epochs.plan import Decision, EpochPlan
from infra.epochs.stages.write import Written
from pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Audited:
    """The outcome: what was found, what a person has decided, and what was read, for the checks after the commit."""

    results: Sequence[InvariantResult] = ()
    decision: Decision | None = None
    cache: AuditCache | None = None

    def release(self) -> None:
        """Release what was kept for the checks."""
        if self.cache is not None:
            self.cache.release()


@dataclass(frozen=True)
class Judge:
    """The stage of a node; ``run_id`` is kept with rows that are refused."""

    node: Node
    run_id: str
    name: ClassVar[str] = "judge"

    def explain(self, context: EpochContext) -> str:
        """What the stage evaluates, in one line."""
        if context.quality is None:
            return "nothing: verdicts are kept nowhere"
        blocking = sum(rule.blocking for rule in of_stage(self.node, "epoch"))
        return f"{blocking} blocking invariants of {len(invariants_of(self.node))}"

    def run(self, context: EpochContext, written: Written) -> Audited:
        """Judge the rows; an epoch whose verdicts are kept nowhere is not judged.

        Raises
        ------
        AuditRefusedError
            Where a blocking invariant is violated or could not be evaluated, and nobody has decided otherwise.
        """
        if context.quality is None:
            return Audited()
        plan, counts, spark = written.plan, written.counts, context.session()
        node = effective(self.node, plan)
        rules = of_stage(node, "epoch")
        with ExitStack() as frames:
            shared = frames.enter_context(relation_frames(node, plan, "audit"))
            inputs = input_relations(context, node, spark, plan, shared)
            paths = context.paths(node)
            relations = epoch_relations(spark, paths, plan, written.rows, counts.rows, inputs)
            frame, cache = relations["rows"](), None
            if shared.few:
                affected = Affected(spark, node, inputs, shared, frame, max(counts.rows, plan.records))
                cache = cached(plan, affected, paths.table)
                relations |= affected.relations if early(node) else {}
            judged = Judged(relations, {"rows": counts.rows}, keep=shared.keep)
            results = evaluate(spark, node, [rule for rule in rules if rule.blocking], judged)
            if not all(result.passed for result in results):
                results += evaluate(spark, node, [rule for rule in rules if not rule.blocking], judged)
            decision = decision_on(context.log, plan)
            found = enforce(context, self.node, plan, frame, results, decision, self.run_id)
            if cache is not None:
                # The checks after the commit go on with these frames; whoever runs the epoch releases them.
                frames.pop_all()
        return Audited(found, decision, cache)


def relation_frames(node: Node, plan: EpochPlan, what: str, whole: bool = False) -> SharedFrames:
    """Frames that several relations share; ``whole``: of tables and not of an epoch."""
    records = None if whole else plan.records
    return SharedFrames(f"{node.pipeline.name}_{node.name}_{plan.epoch}_{what}_{uuid4().hex}", records)


def of_stage(node: Node, stage: str) -> list[Invariant]:
    """The node's invariants of one stage."""
    return [invariant for invariant in invariants_of(node) if invariant.stage == stage]


def input_relations(
    context: EpochContext,
    node: Node,
    spark: SparkSession,
    plan: EpochPlan,
    shared: SharedFrames,
    whole: bool = False,
) -> InputRelations | None:
    """Relations of a computed node's inputs; None of a source. ``whole``: of all that was consumed."""
    if node.operation is None:
        return None
    pinned = PinnedInputs(spark, plan, context.tables, node.operation.stored_inputs)
    return InputRelations(spark, node, pinned, shared, everything=whole)
