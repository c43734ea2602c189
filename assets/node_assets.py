"""One step per node: a multi-asset of its changelog and its table, with a check per invariant.

A step that finds nothing new yields nothing and is skipped. But a step skips whatever stands below it in the run, and
a join may have news from its other input, or tables that others have changed, which only its own step refuses
(``tests/assets/test_foreign_below.py``): then the step confirms its last epoch instead.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from assets.automation import on_new_epoch, with_its_changelog
from assets.freshness import freshness_policy
from assets.keys import changelog_key, keys_of, op_name, table_key
from assets.lineage import described
from assets.metadata import changelog_metadata, check_results, check_severity, table_metadata
from assets.platform import Outcome, Platform
from assets.resource import PlatformResource
from expectations.invariants import Invariant, invariants_of
from pipelines import Join, Node, Operation


def node_assets(node: Node) -> dg.AssetsDefinition:
    """The assets of one node."""
    asset_of = {invariant.id: _judged_asset(node, invariant) for invariant in invariants_of(node)}

    @dg.multi_asset(
        name=op_name(node),
        specs=_specs(node),
        check_specs=[
            dg.AssetCheckSpec(i.id, asset=asset_of[i.id], description=i.sentence, blocking=i.blocking)
            for i in invariants_of(node)
        ],
        can_subset=True,
    )
    def run_node(context: dg.AssetExecutionContext, rivermeet: PlatformResource) -> Iterator[Any]:
        from infra.refusal import EpochRefusedError

        platform = rivermeet.platform
        wanted = context.selected_asset_keys
        if not wanted:
            yield from _checks_alone(platform, node, asset_of, context.run.run_id)
            return
        if len(wanted) < len(keys_of(node)):
            raise dg.Failure(
                f"{node.name}: its changelog and its table are committed together; select both",
                allow_retries=False,
            )
        try:
            outcome = platform.materialise(node, context.run.run_id)
        except EpochRefusedError as refusal:
            judged = platform.judge_refused(node, refusal, context.run.run_id)
            if judged is not None:
                yield from check_results(platform.settings, asset_of, judged.verdicts, judged.epoch)
            raise dg.Failure(str(refusal), allow_retries=False) from refusal
        if outcome is not None:
            yield from _results(platform, node, outcome)
            judged, note = outcome.judgement.verdicts, outcome.result.note
            yield from check_results(platform.settings, asset_of, judged, note.epoch, note.decided)
        elif _someone_waits(platform, node, context):
            yield from _confirmed(platform, node, asset_of, context.run.run_id)
        else:
            context.log.info(f"{node.name}: nothing new")

    return run_node


def _judged_asset(node: Node, invariant: Invariant) -> dg.AssetKey:
    return table_key(node) if invariant.needs_table else changelog_key(node)


def _specs(node: Node) -> list[dg.AssetSpec]:
    made = node.operation
    deps = [key for part in dict.fromkeys(made.inputs.values()) for key in keys_of(part)] if made else []
    about = " ".join(filter(None, (described(made) if made else "", node.description)))
    common: dict[str, Any] = {
        "group_name": node.pipeline.name,
        "skippable": True,
        "tags": _tags(made),
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
    how = {"rivermeet/how": operation.how} if isinstance(operation, Join) else {}
    return {"rivermeet/family": operation.family, **how}


def _results(platform: Platform, node: Node, outcome: Outcome) -> Iterator[dg.MaterializeResult[Any]]:
    paths = platform.runner(node.pipeline).paths(node)
    version = dg.DataVersion(str(outcome.result.plan.epoch))
    metadata = changelog_metadata(node, paths, outcome)
    yield dg.MaterializeResult(changelog_key(node), metadata=metadata, data_version=version)
    if node.is_table:
        metadata = table_metadata(node, paths, outcome)
        yield dg.MaterializeResult(table_key(node), metadata=metadata, data_version=version)


def _someone_waits(platform: Platform, node: Node, context: dg.AssetExecutionContext) -> bool:
    """Whether a step of this run that stands below this one has something to do or to refuse."""
    selected = context.job_def.asset_layer.executable_asset_keys
    waiting, below = False, {node.name}
    for other in node.pipeline.nodes:
        made = other.operation
        if made is None or not below & {part.name for part in made.inputs.values()}:
            continue
        below.add(other.name)
        if not other.is_stored:
            continue
        in_run = changelog_key(other) in selected
        waiting = waiting or (in_run and platform.must_run(other))
    return waiting


def _confirmed(platform: Platform, node: Node, asset_of: Mapping[str, dg.AssetKey], run: str) -> Iterator[Any]:
    """The last epoch once more: same data version, and what its checks said then."""
    from assets.quality import states_of
    from infra.delta_io import last_note

    runner = platform.runner(node.pipeline)
    # Whoever has just committed it is then done with its checks.
    with runner.lock(node).held():
        found = last_note(runner.paths(node).changelog)
        assert found is not None
        epoch, decided = found[1].epoch, found[1].decided
        states = states_of(platform, node, epoch, run)
    for key in keys_of(node):
        metadata = {"epoch": epoch, "nothing_new": True}
        yield dg.MaterializeResult(key, metadata=metadata, data_version=dg.DataVersion(str(epoch)))
    for invariant in invariants_of(node):
        state, checked, violations = states.get(invariant.id, ("not evaluated", None, None))
        known = decided is not None and invariant.id in decided.invariants
        yield dg.AssetCheckResult(
            asset_key=asset_of[invariant.id],
            check_name=invariant.id,
            passed=state == "passed",
            severity=dg.AssetCheckSeverity.WARN if known else check_severity(state, invariant.severity),
            description=f"As judged with epoch {epoch}; nothing is new since.",
            metadata={"epoch": epoch, "state": state, "checked": checked or 0, "violations": violations or 0},
        )


def _checks_alone(
    platform: Platform, node: Node, asset_of: Mapping[str, dg.AssetKey], run: str
) -> Iterator[dg.AssetCheckResult]:
    from infra.delta_io import last_note

    judgement = platform.check_again(node, run)
    if judgement is None:
        raise dg.Failure(f"{node.name} has no epoch yet; materialise it first", allow_retries=False)
    found = last_note(platform.runner(node.pipeline).paths(node).changelog)
    decided = found[1].decided if found else None
    yield from check_results(platform.settings, asset_of, judgement.verdicts, judgement.epoch, decided)
