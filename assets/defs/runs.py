"""Running a pipeline in this process, with its history in the same Dagster instance that the UI shows; and rebuilding.

A rebuild recomputes nodes from their inputs, and everything below them follows. It is an epoch from offset 0 whose one
commit replaces the changelog (`infra.epochs.stages.plan.Rebuild`). A source is read again from its files or its topic:
where some of what it consumed is gone, so would its records be, and it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import dagster as dg

from rivermeet.assets.defs.automation import WHOLE
from rivermeet.assets.defs.failures import sentence_of
from rivermeet.assets.defs.keys import PIPELINE, keys_of
from rivermeet.assets.defs.node_assets import node_assets
from rivermeet.assets.defs.processes import PROCESS, close_runs_of_the_dead, hold_process, processes
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.defs.topic_assets import shadow_asset, shadow_key, sink_asset, topic_key
from rivermeet.assets.project import Project
from rivermeet.infra.settings import PROJECT, Settings
from rivermeet.pipelines import Pipeline
from rivermeet.pipelines.errors import RivermeetError

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def prepare_instance(settings: Settings) -> Path:
    """The folder of the Dagster instance, with the project's configuration in it."""
    home = settings.dagster_home
    home.mkdir(parents=True, exist_ok=True)
    ours = (PROJECT / "infra" / "dagster.yaml").read_bytes()
    config = home / "dagster.yaml"
    if not config.exists() or config.read_bytes() != ours:
        # Another process may read it by then: Dagster takes what it finds of a half for the whole.
        half = home / f".dagster.yaml.{uuid4().hex}"
        half.write_bytes(ours)
        half.replace(config)
    os.environ["DAGSTER_HOME"] = str(home)
    # Of our events it has those that a run plans in one batch, and no others.
    os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", "1000")
    return home


def close_runs_left(settings: Settings) -> list[str]:
    """Close the runs of this home whose process is gone; a line for each."""
    home = settings.dagster_home
    if not processes(home).is_dir() or not any(processes(home).iterdir()):
        return []
    prepare_instance(settings)
    with dg.DagsterInstance.get() as instance:
        return close_runs_of_the_dead(instance)


def run_pipeline(
    project: Project,
    pipeline: Pipeline,
    selected: Sequence[str] = (),
    rebuild: Mapping[str, int | None] | None = None,
    audited: bool = True,
) -> bool:
    """Materialise a pipeline, or some of its nodes; True if every step and every blocking check is green.

    Nodes of ``rebuild`` are recomputed from offset 0, each with its grace (ms) in place of the declared one. If
    ``audited``, nodes are compared with what applications wrote.
    """
    prepare_instance(project.settings)
    nodes = [node for node in pipeline.stored if not selected or node.name in selected]
    with dg.DagsterInstance.get() as instance, ExitStack() as held:
        for line in close_runs_of_the_dead(instance):
            project.say(f"  {line}")
        process = hold_process(instance)
        held.callback(process.let_go)
        result = dg.materialize(
            [
                *map(node_assets, pipeline.stored),
                *map(sink_asset, pipeline.sinks),
                *map(shadow_asset, pipeline.shadows),
            ],
            selection=[
                *(key for node in nodes for key in keys_of(node)),
                *(topic_key(sink) for node in nodes for sink in pipeline.sinks_of(node)),
                *(shadow_key(shadow) for shadow in pipeline.shadows if shadow.node in nodes and audited),
            ],
            resources={"rivermeet": ProjectResource(project=project, rebuild=dict(rebuild) if rebuild else None)},
            instance=instance,
            run_config=QUIET,
            raise_on_error=False,
            tags={PIPELINE: pipeline.name, PROCESS: process.file.name} | ({} if selected else {WHOLE: pipeline.name}),
        )
        # Left there by what ended otherwise: its run may be noted as unfinished.
        process.file.unlink(missing_ok=True)
        # With those of nodes that have nothing new (``assets/defs/standing.py``).
        logged = instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        evaluated = [entry.get_dagster_event().asset_check_evaluation_data for entry in logged]
    for event in result.get_step_failure_events():
        project.say(f"  FAILED {event.step_key}: {sentence_of(event)}")
    failed = [check for check in evaluated if not check.passed]
    for check in failed:
        state = check.metadata["state"].value if "state" in check.metadata else "violated"
        project.say(f"  {str(state).upper()} {check.asset_key.to_user_string()}: {check.description}")
    return result.success and not any(check.severity is dg.AssetCheckSeverity.ERROR for check in failed)


class RebuildRefusedError(RivermeetError):
    """A rebuild that would lose records, or that makes no sense; the message says which and why."""

    remedy = "Leave out the node that has no grace; put back what is gone, or add `--lose-missing-files`."


def rebuild(
    project: Project, pipeline: Pipeline, selected: Sequence[str], grace: int | None = None, lossy: bool = False
) -> bool:
    """Recompute nodes, and all that is made of them; True if every step and every blocking check is green.

    Parameters
    ----------
    selected
        Names of nodes; none for all.
    grace
        Milliseconds instead of the declared grace of the selected nodes, as long as they are not rebuilt again.
    lossy
        Whether a source may lose records: of files that are gone, or that its topic has no more.

    Raises
    ------
    RebuildRefusedError
        Where records of a source are gone, or a node has no grace.
    """
    nodes = [node for node in pipeline.stored if not selected or node.name in selected]
    for node in nodes:
        if grace is not None and node.operation is not None:
            try:
                node.operation.with_grace(grace)
            except ValueError as error:
                raise RebuildRefusedError(f"'{pipeline.name}.{node.name}': {error}") from None
        elif grace is not None:
            raise RebuildRefusedError(f"'{pipeline.name}.{node.name}' is a source: it has no grace")
        gone = project.source_step(node).describe_loss() if node.source is not None and not lossy else None
        if gone is not None:
            raise RebuildRefusedError(
                f"source '{node.pipeline.name}.{node.name}': {gone}, and so would their records be; put them back, or "
                "add --lose-missing-files"
            )
    selected = [node.name for node in pipeline.downstream(nodes)]
    return run_pipeline(project, pipeline, selected, {node.name: grace for node in nodes})
