"""Judge: the invariants of an epoch's rows, evaluated once, on what its plan could see, before anything is committed.

| a blocking invariant is violated | a person has decided | the epoch |
|---|---|---|
| no | | is committed |
| yes | | is refused: its rows go to the quarantine, its inputs stay unread |
| yes | to release these very rows | is committed as it is |
| either | to drop the epoch | is committed without its rows |

The rows that are judged are read from the files that the commit then names. Judged elsewhere: the commit itself
(``assets/quality/judge_commit.py``) and the folded table (``assets/quality/judge_fold.py``). Held by
``tests/assets/quality/test_quarantine.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from assets.quality.relations.affected import Affected
from assets.quality.relations.epoch import epoch_relations
from assets.quality.relations.inputs import InputRelations, Relations, effective
from assets.quality.relations.sql import lines
from assets.refused.quarantine import enforce
from assets.refused.states import decision_on
from expectations.evaluate import InvariantResult, Judged, Relation, evaluate
from expectations.invariant import Moment, moment_of
from expectations.invariants import Invariant, invariants_of
from expectations.key_share import key_share
from expectations.rules.touched import early
from infra.engine.shared_frames import SharedFrames
from infra.epochs.column_ranges import ColumnRanges
from infra.epochs.context import EpochContext
from infra.epochs.inputs import PinnedInputs
from infra.epochs.plan import Decision, EpochPlan
from infra.epochs.stages.write import Written
from pipelines import Node
from pipelines.source import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Audited:
    """The outcome: what was found, and what a person has decided."""

    results: Sequence[InvariantResult] = ()
    decision: Decision | None = None


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
        rules = judged_at(self.node, "audit")
        return f"{len(rules)} invariants, {sum(rule.blocking for rule in rules)} of them blocking"

    def run(self, context: EpochContext, written: Written) -> Audited:
        """Judge the rows; an epoch whose verdicts are kept nowhere is not judged.

        Raises
        ------
        AuditRefusedError
            Where a blocking invariant is violated or could not be evaluated, and nobody has decided otherwise.
        """
        if context.quality is None:
            return Audited()
        plan, spark = written.plan, context.session()
        node = effective(self.node, plan)
        with relation_frames(node, plan, "audit") as shared:
            ranges = None if written.staged is None else partial(ColumnRanges.of_staged, written.staged)
            judged = audited_relations(context, node, plan, written.rows, written.counts.rows, ranges, shared, spark)
            late = written.sides.get("late")
            made = {"late": lambda: _late(spark, context.paths(node).late, plan, late)}
            share = key_share(plan.epoch, max(plan.records, written.counts.rows), context.all_keys_up_to)
            judged = replace(judged, relations={**judged.relations, **made}, share=share)
            results = evaluate(spark, node, judged_at(node, "audit"), judged)
            decision = decision_on(context.log, plan)
            rows = judged.relations["rows"]()
            found = enforce(context, self.node, plan, rows, results, decision, self.run_id)
        return Audited(found, decision)


def audited_relations(
    context: EpochContext,
    node: Node,
    plan: EpochPlan,
    rows: DataFrame,
    count: int,
    ranges: Callable[[], ColumnRanges] | None,
    shared: SharedFrames,
    spark: SparkSession,
) -> Judged:
    """The relations by which an epoch's rows are judged, and how many rows there are of each that is judged.

    Parameters
    ----------
    rows
        The epoch's, staged or committed.
    count
        How many they are.
    ranges
        Gives those of their columns, where they are known.
    """
    inputs = input_relations(context, node, spark, plan, shared, ranges=ranges)
    relations: Relations = epoch_relations(spark, context.paths(node), plan, rows, count, inputs)
    relations["changelog"] = relations["rows"]
    if shared.few and early(node):
        rules = judged_at(node, "audit")
        affected = Affected(spark, node, inputs, shared, relations["rows"](), max(count, plan.records), rules)
        relations |= affected.relations
    read = sum(part.records for part in plan.inputs.values())
    return Judged(relations, {"rows": count, "changelog": count, "read": read}, keep=shared.keep)


def _late(spark: SparkSession, path: str, plan: EpochPlan, late: DataFrame | None) -> Relation:
    """What the epoch drops, before it is written; its SQL reads it where it is going to be."""
    if late is None:
        return lines(spark, {"reason": "STRING"}, [])
    return Relation(late, f"(SELECT * FROM delta.{quoted(path)} WHERE epoch = {plan.epoch})")


def relation_frames(node: Node, plan: EpochPlan, what: str, whole: bool = False) -> SharedFrames:
    """Frames that several relations share; ``whole``: of tables and not of an epoch."""
    records = None if whole else plan.records
    return SharedFrames(f"{node.pipeline.name}_{node.name}_{plan.epoch}_{what}_{uuid4().hex}", records)


def judged_at(node: Node, moment: Moment) -> list[Invariant]:
    """The node's invariants that a run judges at one moment."""
    return [invariant for invariant in invariants_of(node) if moment_of(invariant, node) == moment]


def input_relations(
    context: EpochContext,
    node: Node,
    spark: SparkSession,
    plan: EpochPlan,
    shared: SharedFrames,
    whole: bool = False,
    ranges: Callable[[], ColumnRanges] | None = None,
) -> InputRelations | None:
    """Relations of a computed node's inputs; None of a source.

    Parameters
    ----------
    whole
        Whether they are of all that was consumed.
    ranges
        Gives those of the rows that are judged, where they are known.
    """
    if node.operation is None:
        return None
    pinned = PinnedInputs(spark, plan, context.tables, node.operation.stored_inputs)
    return InputRelations(spark, node, pinned, shared, everything=whole, result=ranges)
