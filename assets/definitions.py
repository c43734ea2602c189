"""The pipelines of a project as Dagster's definitions, to be merged with others; and those of the project worked in.

Importing this opens no session and does not load Great Expectations: the code server and every run import it.
"""

from __future__ import annotations

import re
from pathlib import Path

import dagster as dg

from rivermeet.assets.defs.automation import EVERY_15_MINUTES, WHOLE, on_new_epoch_sensor
from rivermeet.assets.defs.keys import assets_of
from rivermeet.assets.defs.maintenance import maintenance_asset, maintenance_job, maintenance_key, maintenance_schedule
from rivermeet.assets.defs.node_assets import node_assets
from rivermeet.assets.defs.report_asset import report_asset
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.defs.source_checks import source_checks
from rivermeet.assets.defs.spark import WarmSparkResource
from rivermeet.assets.defs.topic_assets import shadow_asset, sink_asset
from rivermeet.assets.project import Project
from rivermeet.pipelines import BrokenFile, Pipeline


def job_of(pipeline: Pipeline) -> dg.UnresolvedAssetJobDefinition:
    """The job that materialises a whole pipeline."""
    return dg.define_asset_job(
        pipeline.name,
        selection=assets_of(pipeline) - dg.AssetSelection.assets(maintenance_key(pipeline)),
        description=pipeline.description,
        executor_def=dg.in_process_executor,
    )


def schedule_of(pipeline: Pipeline, job: dg.UnresolvedAssetJobDefinition, project: Project) -> dg.ScheduleDefinition:
    """The schedule of a whole pipeline; a tick that finds nothing new makes no run, and the page keeps its verdicts."""

    @dg.schedule(
        name=f"{pipeline.name}_every_15_minutes",
        job=job,
        cron_schedule=EVERY_15_MINUTES,
        tags={WHOLE: pipeline.name},
        default_status=dg.DefaultScheduleStatus.STOPPED,
    )
    def every_15_minutes() -> dg.RunRequest | dg.SkipReason:
        from rivermeet.assets.epoch.idle import is_idle

        if is_idle(project, list(pipeline.stored)):
            return dg.SkipReason("Nothing is new in any source; the checks show what stands.")
        return dg.RunRequest(tags={WHOLE: pipeline.name})

    return every_15_minutes


def stand_in(broken: BrokenFile) -> dg.AssetsDefinition:
    """What stands for a file that could not be loaded: it says why, and fails where it is run."""

    @dg.asset(
        key=["not_loaded", re.sub(r"\W", "_", Path(broken.file).stem)],
        group_name="not_loaded",
        description=f"This file could not be loaded, and none of its assets is here. {broken}",
        metadata={"file": broken.file, "error": broken.error},
    )
    def not_loaded() -> None:
        raise dg.Failure(str(broken), allow_retries=False)

    return not_loaded


def definitions(project: Project) -> dg.Definitions:
    """Assets, checks, jobs, stopped schedules and stopped sensors for each pipeline of a project.

    A file that cannot be loaded is an asset that says why and fails.

    Returns
    -------
    Definitions
        ``dg.Definitions.merge`` puts them beside others; their resources are ``rivermeet`` and ``pyspark``.
    """
    pipelines = project.pipelines
    for file in project.problems:
        dg.get_dagster_logger().error("not loaded: %s", file)
    jobs = {pipeline.name: job_of(pipeline) for pipeline in pipelines}
    care = [maintenance_job(pipeline) for pipeline in pipelines]
    return dg.Definitions(
        assets=[
            *(node_assets(node) for pipeline in pipelines for node in pipeline.stored),
            *(sink_asset(sink) for pipeline in pipelines for sink in pipeline.sinks),
            *(shadow_asset(shadow) for pipeline in pipelines for shadow in pipeline.shadows),
            *(maintenance_asset(pipeline) for pipeline in pipelines),
            report_asset(pipelines),
            *(stand_in(file) for file in project.problems),
        ],
        asset_checks=[check for pipeline in pipelines for check in source_checks(pipeline)],
        jobs=[*jobs.values(), *care],
        schedules=[schedule_of(pipeline, jobs[pipeline.name], project) for pipeline in pipelines]
        + [maintenance_schedule(job) for job in care],
        sensors=[on_new_epoch_sensor(pipeline) for pipeline in pipelines],
        resources={"rivermeet": ProjectResource(project=project), "pyspark": WarmSparkResource(project=project)},
        executor=dg.in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Those of the project that is worked in: the code location of a checkout, and of a project without its own."""
    return definitions(Project.find())
