"""One step per node: a multi-asset of its changelog and its table, with a check per invariant.

A step that finds nothing new yields nothing, and Dagster skips whatever is below it in the run. But a join may have
news from its other input, or tables that others have changed, which only its own step refuses
(``tests/assets/quality/test_modified_below.py``): then the step confirms its last epoch instead. Either way the checks
show the verdicts of the current epoch (``assets/defs/standing.py``).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from rivermeet.assets.defs.automation import freshness_policy, on_new_epoch, with_its_changelog
from rivermeet.assets.defs.failures import explain_failures
from rivermeet.assets.defs.keys import changelog_key, describe_asset, keys_of, op_name, table_key
from rivermeet.assets.defs.metadata import changelog_metadata, check_results, map_checks, table_metadata
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.defs.standing import below, confirm, is_unshown, show_standing, verdicts_of_fold
from rivermeet.assets.project import Project
from rivermeet.expectations.invariants import invariants_of
from rivermeet.pipelines import Node, Operation, Pipeline

if TYPE_CHECKING:
    from rivermeet.assets.epoch.run import Outcome


IN_PROCESS = ("in_process", "execute_in_process_executor")
"""Executors that run all steps of a run in one process: that of jobs, and that of `dg.materialize`."""


def node_assets(node: Node) -> dg.AssetsDefinition:
    """The assets of one node."""
    asset_of = map_checks(node)

    @dg.multi_asset(
        name=op_name(node),
        specs=_specs(node),
        check_specs=[
            dg.AssetCheckSpec(i.id, asset=asset_of[i.id], description=i.sentence, blocking=i.blocking)
            for i in invariants_of(node)
        ],
        can_subset=True,
    )
    def run_node(context: dg.AssetExecutionContext, rivermeet: ProjectResource) -> Iterator[Any]:
        with explain_failures(node):
            yield from _run(node, context, rivermeet)

    return run_node


def _run(node: Node, context: dg.AssetExecutionContext, rivermeet: ProjectResource) -> Iterator[Any]:
    from rivermeet.assets.quality.judge_committed import judge_refused
    from rivermeet.assets.refused.states import AuditRefusedError

    project = rivermeet.project
    wanted = context.selected_asset_keys
    if not wanted:
        rivermeet.list_verdicts(node)
        yield from _checks_alone(project, node, context.run.run_id)
        return
    if len(wanted) < len(keys_of(node)):
        raise dg.Failure(
            f"{node.name}: its changelog and its table are committed together; select both",
            allow_retries=False,
        )
    try:
        outcome = rivermeet.outcome(node, nodes_of(node.pipeline, context), context.run.run_id)
    except AuditRefusedError as refusal:
        rivermeet.list_verdicts(node)
        judged = judge_refused(project.context(node.pipeline), node, refusal, context.run.run_id)
        yield from check_results(project.settings, node, judged, context.run.run_id)
        yield from verdicts_of_fold(project, node, context.run.run_id)
        raise
    if any(part is not None for part in (outcome.result, outcome.missed, outcome.folded)):
        rivermeet.list_verdicts(node)
    if outcome.result is not None and outcome.judgement is not None:
        yield from _results(project, node, outcome)
        decided = outcome.result.note.decided
        yield from check_results(project.settings, node, outcome.judgement, context.run.run_id, decided)
        if outcome.folded is not None and outcome.folded.verdicts:
            yield from check_results(project.settings, node, outcome.folded, context.run.run_id)
        else:
            yield from verdicts_of_fold(project, node, context.run.run_id)
    elif _is_needed(node, rivermeet, below(node, context), context.instance):
        yield from confirm(project, node, context.run.run_id)
    else:
        context.log.info(f"{node.name}: nothing new")
        yield from show_standing(project, node, context, rivermeet.shown)


def _is_needed(node: Node, rivermeet: ProjectResource, others: Sequence[Node], instance: dg.DagsterInstance) -> bool:
    """Whether a node below has news, or Dagster or a topic is behind one of them, or the node itself."""
    from rivermeet.assets.sinks.delivery import sink_lag

    if any(rivermeet.waits(other) for other in others):
        return True
    if any(is_unshown(rivermeet.project, one, instance) for one in (node, *others)):
        return True
    sinks = [sink for one in (node, *others) for sink in one.pipeline.sinks_of(one)]
    return any(sink_lag(rivermeet.project, sink).epochs for sink in sinks)


def nodes_of(pipeline: Pipeline, context: dg.AssetExecutionContext) -> list[Node]:
    """The nodes that this process materialises in this run: all of it, or the one of a step that has its own."""
    if context.job_def.executor_def.name not in IN_PROCESS:
        return [node for node in pipeline.stored if changelog_key(node) in context.selected_asset_keys]
    selected = set(context.job_def.asset_layer.executable_asset_keys)
    return [node for node in pipeline.stored if selected.issuperset(keys_of(node))]


def _specs(node: Node) -> list[dg.AssetSpec]:
    made = node.operation
    deps = [key for part in dict.fromkeys(made.inputs.values()) for key in keys_of(part)] if made else []
    about = " ".join(filter(None, (made.description if made else "", node.description)))
    common: dict[str, Any] = {
        **describe_asset(node.pipeline, _tags(made)),
        "skippable": True,
        "freshness_policy": freshness_policy(node),
    }
    changelog = dg.AssetSpec(
        changelog_key(node),
        deps=deps,
        kinds={"delta", "spark"},
        description=about,
        automation_condition=on_new_epoch(node),
        **common,
    )
    if not node.is_table:
        return [changelog]
    folded = f"The fold of `{node.name}`'s changelog: the last value of each key. {about}"
    table = dg.AssetSpec(
        table_key(node),
        deps=[changelog_key(node)],
        kinds={"delta", "table"},
        description=folded,
        automation_condition=with_its_changelog(),
        **common,
    )
    return [changelog, table]


def _tags(operation: Operation | None) -> dict[str, str]:
    if operation is None:
        return {}
    how = {"rivermeet/how": operation.type} if operation.type is not None else {}
    return {"rivermeet/family": operation.family, **how}


def _results(project: Project, node: Node, outcome: "Outcome") -> Iterator[dg.MaterializeResult[Any]]:
    from rivermeet.infra.epochs.stages.fold import lag_of

    context = project.context(node.pipeline)
    paths = context.paths(node)
    assert outcome.result is not None
    version = dg.DataVersion(str(outcome.result.plan.epoch))
    metadata = changelog_metadata(node, paths, outcome)
    yield dg.MaterializeResult(changelog_key(node), metadata=metadata, data_version=version)
    if node.is_table:
        lag = lag_of(context, node, outcome.result.note)
        metadata = table_metadata(node, paths, outcome, lag)
        upto = outcome.result.plan.epoch - (lag.epochs if lag is not None else 0)
        yield dg.MaterializeResult(table_key(node), metadata=metadata, data_version=dg.DataVersion(str(upto)))


def _checks_alone(project: Project, node: Node, run: str) -> Iterator[dg.AssetCheckResult]:
    from rivermeet.assets.quality.judge_committed import judge_again
    from rivermeet.infra.delta.io import last_note

    judgement = judge_again(project.context(node.pipeline), node, run)
    if judgement is None:
        raise dg.Failure(f"{node.name} has no epoch yet; materialise it first", allow_retries=False)
    found = last_note(project.paths(node).changelog)
    decided = found[1].decided if found else None
    yield from check_results(project.settings, node, judgement, run, decided)
