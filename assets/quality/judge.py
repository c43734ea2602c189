"""Judge: the invariants of an epoch's rows, evaluated once, on what its plan could see, before anything is committed.

| a blocking invariant is violated | a person has decided | the epoch |
|---|---|---|
| no | | is committed |
| yes | | is refused: its rows go to the quarantine, its inputs stay unread |
| yes | to release these very rows | is committed as it is |
| either | to drop the epoch | is committed without its rows |

The rows are read from the files that the commit then names. The commit is judged afterwards (`judge_commit`), and the
folded table by ``assets/quality/judge_fold.py``. Held by ``tests/assets/quality/test_quarantine.py`` and
``tests/assets/quality/test_judge_commit.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rivermeet.assets.quality.judges import evaluate
from rivermeet.assets.quality.quarantine import enforce
from rivermeet.assets.quality.relations.epoch import build_epoch_relations, effective, nothing_late
from rivermeet.assets.quality.relations.parts import bounds, frame_part, node_part, part_of_staged
from rivermeet.assets.refused.states import decision_on
from rivermeet.expectations.invariant import Moment, moment_of
from rivermeet.expectations.invariants import Invariant, invariants_of
from rivermeet.expectations.results import InvariantResult, Judged, Relation
from rivermeet.infra.commit_note import Decision
from rivermeet.infra.delta.changelog_files import epoch_files
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.stages.write import Written
from rivermeet.pipelines import Node
from rivermeet.pipelines.plural import pluralize


@dataclass(frozen=True)
class Audited:
    """What was found of an epoch, and what a person has decided about it."""

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
        rules = select_rules(self.node, "audit")
        return f"{pluralize(len(rules), 'invariant')}, {sum(rule.blocking for rule in rules)} of them blocking"

    def run(self, context: EpochContext, written: Written) -> Audited:
        """Judge the rows; where no verdicts are kept, an epoch is not judged.

        Raises
        ------
        AuditRefusedError
            If a blocking invariant is violated or could not be evaluated, and nobody has decided otherwise.
        """
        if context.quality is None:
            return Audited()
        plan, paths = written.plan, context.paths(self.node)
        node = effective(self.node, plan)
        rows = (
            part_of_staged(paths, written.staged)
            if written.staged
            else frame_part(paths, "changelog", plan.epoch, written.rows)
        )
        judged = build_epoch_relations(context, node, plan, rows, written.counts.rows, lambda: _late(paths, written))
        results = evaluate(context, node, select_rules(node, "audit"), judged)
        decision = decision_on(context.log, plan)
        return Audited(enforce(context, self.node, plan, written.rows, results, decision, self.run_id), decision)


def _late(paths: NodeTables, written: Written) -> Relation:
    """What the epoch drops, before it is written."""
    if not written.counts.sides.get("late"):
        return nothing_late()
    staged, epoch = written.staged_sides.get("late"), written.plan.epoch
    if staged is None:
        return Relation("SELECT * FROM {late}", {"late": frame_part(paths, "late", epoch, written.sides["late"])})
    return Relation(f"SELECT * FROM {{late}} WHERE epoch = {epoch}", {"late": part_of_staged(paths, staged, "late")})


def judge_commit(context: EpochContext, node: Node, plan: EpochPlan, version: int) -> list[InvariantResult]:
    """Judge a committed epoch in the files that the changelog's log names at ``version``.

    Its rows were judged before, in files that no log named; this is about their partitions and offsets alone:

        changelog ended at offset 9, the epoch has 3 rows      its files have offsets 10, 11, 12        passes
        a file is named twice                                  10, 10, 11, 11, 12, 12                   violated
    """
    rows = node_part(context.paths(node), "changelog", version, lambda files: epoch_files(files, plan.epoch))
    named = Relation(f"SELECT * FROM {{changelog}} WHERE epoch = {plan.epoch}", {"changelog": rows})
    judged = Judged({"changelog": lambda: named, "bounds": lambda: bounds(plan)})
    return evaluate(context, node, select_rules(node, "commit"), judged)


def select_rules(node: Node, moment: Moment) -> list[Invariant]:
    """The node's invariants that a run judges at one moment."""
    return [invariant for invariant in invariants_of(node) if moment_of(invariant, node) == moment]
