"""What checks show when a run finds nothing new: the verdicts of the standing epoch.

A run plans every check of its nodes, and Dagster shows a planned check without a verdict as skipped. Most scheduled
runs find nothing new, so the verdicts are given again:

| node | its verdicts are given by |
|---|---|
| nothing new, but a node below it runs | its own step, which confirms its epoch: same data version, same checks |
| nothing new, and below it neither | its own step, which gives check results alone |
| below such a node | that step too, as events of the run: their own steps Dagster skips |
| Dagster has not seen its epoch | as where a node below runs, so that all steps are executed |

A step that fails after its commit, as where its verdicts cannot be written, keeps Dagster from executing those below,
although these have read the epoch and committed theirs; so does a process that is killed in between. The next run shows
them. The second and the third record no materialisation: it would make the node look fresh, and it had no new epoch.
Held by ``tests/assets/defs/test_materialise.py`` and ``tests/assets/quality/test_check_results.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData

from rivermeet.assets.defs.keys import changelog_key, keys_of
from rivermeet.assets.defs.metadata import check_severity, map_checks
from rivermeet.assets.project import Project
from rivermeet.expectations.invariant import Invariant, moment_of
from rivermeet.expectations.invariants import invariants_of
from rivermeet.infra.commit_note import Decision
from rivermeet.pipelines import Node

if TYPE_CHECKING:
    from rivermeet.assets.quality.quality_table import State


def find_standing(project: Project, node: Node, run: str) -> tuple[int, list[dg.AssetCheckResult]]:
    """A node's newest committed epoch and what its checks said of it; 0 and nothing where it has none."""
    from rivermeet.assets.quality.judge_committed import states_of
    from rivermeet.assets.quality.quality_table import State
    from rivermeet.infra.delta.io import last_note

    context = project.context(node.pipeline)
    # Once the lock is free, a run that has just committed has recorded its verdicts.
    with context.lock(node).hold():
        note = last_note(context.paths(node).changelog)
        if note is None:
            return 0, []
        epoch, decided = note[1].epoch, note[1].decided
        states = states_of(context, node, epoch, run)
    lost = State("not evaluated", None, None, epoch)
    return epoch, [
        _to_check_result(node, rule, states.get(rule.id, lost), epoch, decided) for rule in invariants_of(node)
    ]


def _to_check_result(
    node: Node, invariant: Invariant, state: State, epoch: int, decision: Decision | None
) -> dg.AssetCheckResult:
    known = decision is not None and invariant.id in decision.invariants
    is_of_rows = state.epoch == epoch and moment_of(invariant, node) != "fold"
    since = "nothing is new since" if is_of_rows else "the table was not folded since"
    counts = {"checked": state.checked or 0, "violations": state.violations or 0}
    return dg.AssetCheckResult(
        asset_key=map_checks(node)[invariant.id],
        check_name=invariant.id,
        passed=state.state == "passed",
        severity=dg.AssetCheckSeverity.WARN if known else check_severity(state.state, invariant.severity),
        description=f"As judged with epoch {state.epoch}; {since}.",
        metadata={"epoch": state.epoch, "state": state.state, **counts},
    )


def is_unshown(project: Project, node: Node, instance: dg.DagsterInstance) -> bool:
    """Whether Dagster has another epoch as its newest of a node, or none: the step that shows it was not executed."""
    from rivermeet.infra.delta.io import last_note

    note = last_note(project.paths(node).changelog)
    event = instance.get_latest_materialization_event(changelog_key(node))
    shown = event.asset_materialization.metadata["epoch"].value if event and event.asset_materialization else None
    return note is not None and shown != note[1].epoch


def verdicts_of_fold(project: Project, node: Node, run: str) -> Iterator[dg.AssetCheckResult]:
    """The verdicts of the node's last fold, for a run in which none was due."""
    _, results = find_standing(project, node, run)
    of_fold = {invariant.id for invariant in invariants_of(node) if moment_of(invariant, node) == "fold"}
    yield from (result for result in results if result.check_name in of_fold)


def confirm(project: Project, node: Node, run: str) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
    """The standing epoch again, as a step's results."""
    epoch, results = find_standing(project, node, run)
    assert epoch, f"{node.name} has no epoch that could be confirmed"
    for key in keys_of(node):
        metadata = {"epoch": epoch, "nothing_new": True}
        yield dg.MaterializeResult(key, metadata=metadata, data_version=dg.DataVersion(str(epoch)))
    yield from results


def show_standing(
    project: Project, node: Node, context: dg.AssetExecutionContext, shown: set[str]
) -> Iterator[dg.AssetCheckResult]:
    """The verdicts of a node that has nothing new; those of all below it in this run are recorded, once.

    Names of nodes whose verdicts the run has recorded are kept in ``shown``.
    """
    yield from find_standing(project, node, context.run.run_id)[1]
    shown.add(node.name)
    # No step of theirs is executed that could give a result.
    nodes = [one for one in below(node, context) if one.name not in shown]
    shown.update(one.name for one in nodes)
    targets = _newest_materialisations(context.instance, nodes)
    step = context.get_step_execution_context()
    for one in nodes:
        blocking = {invariant.id: invariant.blocking for invariant in invariants_of(one)}
        for result in find_standing(project, one, context.run.run_id)[1]:
            assert result.asset_key is not None and result.check_name is not None
            evaluation = dg.AssetCheckEvaluation(
                asset_key=result.asset_key,
                check_name=result.check_name,
                passed=result.passed,
                metadata=result.metadata,
                target_materialization_data=targets.get(result.asset_key),
                severity=result.severity,
                description=result.description,
                blocking=blocking[result.check_name],
            )
            dg.DagsterEvent.asset_check_evaluation(step, evaluation)


def below(node: Node, context: dg.AssetExecutionContext) -> list[Node]:
    """The stored nodes of this run that are made of a node, near or far."""
    selected = set(context.job_def.asset_layer.executable_asset_keys)
    return [one for one in node.pipeline.downstream([node]) if one is not node and changelog_key(one) in selected]


def _newest_materialisations(instance: dg.DagsterInstance, nodes: list[Node]) -> dict[dg.AssetKey, Any]:
    found = {}
    for record in instance.get_asset_records([key for node in nodes for key in keys_of(node)]):
        last = record.asset_entry.last_materialization_record
        if last is not None:
            entry = last.event_log_entry
            found[record.asset_entry.asset_key] = AssetCheckEvaluationTargetMaterializationData(
                storage_id=last.storage_id, run_id=entry.run_id, timestamp=entry.timestamp
            )
    return found
