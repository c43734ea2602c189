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
from dataclasses import dataclass
from typing import ClassVar

from rivermeet.assets.quality.judges import evaluate
from rivermeet.assets.quality.quarantine import enforce
from rivermeet.assets.quality.relations.epoch import epoch_relations, nothing_late
from rivermeet.assets.quality.relations.inputs import InputRelations, effective
from rivermeet.assets.quality.relations.parts import FrameRows, StagedRows
from rivermeet.assets.refused.states import decision_on
from rivermeet.expectations.invariant import Moment, moment_of
from rivermeet.expectations.invariants import Invariant, invariants_of
from rivermeet.expectations.results import InvariantResult, Judged, Part, Relation
from rivermeet.infra.commit_note import Decision
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.stages.write import Written
from rivermeet.pipelines import Node


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
        plan, paths = written.plan, context.paths(self.node)
        node = effective(self.node, plan)
        rows = (
            StagedRows(paths, written.staged)
            if written.staged
            else FrameRows(paths, "changelog", plan.epoch, written.rows)
        )
        judged = audited(context, node, plan, rows, written.counts.rows, lambda: _late(paths, written))
        results = evaluate(context, node, judged_at(node, "audit"), judged)
        decision = decision_on(context.log, plan)
        return Audited(enforce(context, self.node, plan, written.rows, results, decision, self.run_id), decision)


def audited(
    context: EpochContext, node: Node, plan: EpochPlan, rows: Part, count: int, late: Callable[[], Relation]
) -> Judged:
    """The relations by which an epoch's rows are judged, and how many rows there are of each that is judged.

    Parameters
    ----------
    rows
        The epoch's, staged or committed.
    count
        How many they are.
    late
        Makes the relation of what it dropped.
    """
    inputs = InputRelations(node, plan, context.tables)
    relations = {**epoch_relations(context.paths(node), plan, rows, inputs), "late": late}
    read = sum(part.records for part in plan.inputs.values())
    return Judged(relations, {"rows": count, "changelog": count, "read": read})


def _late(paths: NodeTables, written: Written) -> Relation:
    """What the epoch drops, before it is written."""
    if not written.counts.sides.get("late"):
        return nothing_late()
    staged, epoch = written.staged_sides.get("late"), written.plan.epoch
    if staged is None:
        return Relation("SELECT * FROM {late}", {"late": FrameRows(paths, "late", epoch, written.sides["late"])})
    return Relation(f"SELECT * FROM {{late}} WHERE epoch = {epoch}", {"late": StagedRows(paths, staged, "late")})


def judged_at(node: Node, moment: Moment) -> list[Invariant]:
    """The node's invariants that a run judges at one moment."""
    return [invariant for invariant in invariants_of(node) if moment_of(invariant, node) == moment]
