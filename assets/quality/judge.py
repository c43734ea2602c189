"""Judge: the invariants of an epoch's rows, evaluated once, on what its plan could see, before anything is committed.

| a blocking invariant is violated | a person has decided | the epoch |
|---|---|---|
| no | | is committed |
| yes | | is refused: its rows go to the quarantine, its inputs stay unread |
| yes | to release these very rows | is committed as it is |
| either | to drop the epoch | is committed without its rows |

The rows are read from the files that the commit then names. The commit is judged afterwards (`judge_commit`), and the
folded table by ``assets/quality/judge_committed.py``. Held by ``tests/assets/quality/test_quarantine.py`` and
``tests/assets/quality/test_judge_commit.py``.

Which engine judges: DuckDB in this process, or Spark if one process should not read that much, and for some rules.

| ``RIVERMEET_JUDGE`` | judges |
|---|---|
| ``auto`` | DuckDB up to `limits.DUCKDB_BYTES` of files in one evaluation, else Spark; Spark also what DuckDB cannot |
| ``duckdb`` | DuckDB; what it cannot evaluate is not evaluated |
| ``spark`` | Spark |

Each verdict names its engine. Held by ``tests/assets/quality/test_judges.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

from rivermeet.assets.quality.quality_table import quality_of
from rivermeet.assets.quality.quarantine import enforce
from rivermeet.assets.quality.relations.epoch import build_epoch_relations, effective, nothing_late
from rivermeet.assets.quality.relations.parts import bounds, frame_part, node_part, part_of_staged
from rivermeet.assets.refused.states import decision_on
from rivermeet.expectations.invariant import Invariant, Moment, moment_of, relations_of
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.judge.duck import InProcess
from rivermeet.expectations.judge.expressions import unlike
from rivermeet.expectations.judge.spark import OnEngine
from rivermeet.expectations.results import InvariantResult, Judged, Relation
from rivermeet.expectations.rules.derived import derive
from rivermeet.expectations.rules.record_sql import users_expressions
from rivermeet.infra.commit_note import Decision
from rivermeet.infra.delta.changelog_files import epoch_files
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.stages.write import Written
from rivermeet.pipelines import Node, limits
from rivermeet.pipelines.plural import pluralize


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

    def run(self, context: EpochContext, written: Written) -> tuple[Sequence[InvariantResult], Decision | None]:
        """Judge the rows: what was found, and what a person has decided; nothing where no verdicts are kept.

        Raises
        ------
        AuditRefusedError
            If a blocking invariant is violated or could not be evaluated, and nobody has decided otherwise.
        """
        if context.quality is None:
            return (), None
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
        return enforce(context, self.node, plan, written.rows, results, decision, self.run_id), decision


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


def evaluate(context: EpochContext, node: Node, rules: Sequence[Invariant], judged: Judged) -> list[InvariantResult]:
    """Judge a node; one result for each rule, in their order."""
    quality, engine = quality_of(context), OnEngine(context.session)
    judged = replace(judged, relations={name: cache(make) for name, make in judged.relations.items()})
    because = "RIVERMEET_JUDGE=spark" if quality.judge == "spark" else ""
    if quality.judge == "auto" and (read := _bytes(node, rules, judged)) > limits.DUCKDB_BYTES:
        because = f"{read:,} bytes of files are more than {limits.DUCKDB_BYTES:,}"
    if because:
        return [replace(result, because=because) for result in engine.evaluate(node, rules, judged)]
    alike = [rule for rule in rules if unlike(node, rule) is None]
    found = {r.invariant.id: r for r in InProcess(quality.memory, quality.spill).evaluate(node, alike, judged)}
    if quality.judge == "duckdb":
        for rule in (rule for rule in rules if rule not in alike):
            reason = f"{_because(node, rule, None)} than Spark; set RIVERMEET_JUDGE=auto"
            found[rule.id] = InvariantResult(rule, None, None, [], "", 0.0, reason, judged.scope)
        return [found[rule.id] for rule in rules]
    again = {rule: why for rule in rules if (why := _because(node, rule, found.get(rule.id)))}
    for result in engine.evaluate(node, list(again), judged):
        mine = found.get(result.invariant.id)
        result = replace(result, because=again[result.invariant])
        # Of what DuckDB found, its query is the one that a user can run.
        found[result.invariant.id] = replace(result, sql=mine.sql) if mine and mine.state == "violated" else result
    return [found[rule.id] for rule in rules]


def _because(node: Node, invariant: Invariant, mine: InvariantResult | None) -> str | None:
    """Why Spark judges a rule that DuckDB may have judged; None where DuckDB's verdict is the last word."""
    if mine is None:
        return f"DuckDB may understand {unlike(node, invariant)!r} otherwise"
    if mine.state == "not evaluated":
        return f"DuckDB could not evaluate it: {(mine.error or 'no reason known').splitlines()[0][:200]}"
    # Spark rounds decimals of more than 38 digits, which are another number to DuckDB.
    if mine.state == "violated" and users_expressions(invariant.violations(node)):
        return "DuckDB found violations by an expression of the pipeline's own"
    return None


def _bytes(node: Node, rules: Sequence[Invariant], judged: Judged) -> int:
    """Size of the files that rules read, each counted once; what cannot be read, the evaluation reports."""
    names: set[str] = set()
    for rule in rules:
        try:
            named = relations_of(rule.violations(node))
        except Exception:  # a user's rule that is not a query
            continue
        derived = [query(node) for name, query in derive(node).items() if name in named]
        names |= {name for query in derived for name in relations_of(query)} | {*named}
    size = 0
    for name in names & set(judged.relations):
        with suppress(Exception):
            size += sum(part.size() for part in judged.relations[name]().parts.values())
    return size
