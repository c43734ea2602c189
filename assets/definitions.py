"""All declared pipelines as one Dagster code location.

Importing this opens no session and does not load Great Expectations: the code server and every run import it.
"""

from __future__ import annotations

import re
from pathlib import Path

import dagster as dg

from rivermeet.assets.defs.automation import EVERY_15_MINUTES, WHOLE, on_new_epoch_sensor
from rivermeet.assets.defs.maintenance import maintenance_asset, maintenance_job, maintenance_key, maintenance_schedule
from rivermeet.assets.defs.node_assets import node_assets
from rivermeet.assets.defs.resource import PlatformResource
from rivermeet.assets.defs.shadow_assets import shadow_asset
from rivermeet.assets.defs.sink_assets import sink_asset
from rivermeet.assets.defs.spark import WarmSparkResource
from rivermeet.assets.defs.table_checks import reads_table, table_check
from rivermeet.assets.defs.topic_checks import reads_topic, topic_check
from rivermeet.assets.epoch.platform import current
from rivermeet.assets.reports.quality_report import report_asset
from rivermeet.pipelines import BrokenFile, Pipeline, loaded


def job_of(pipeline: Pipeline) -> dg.UnresolvedAssetJobDefinition:
    """The job that materialises a whole pipeline."""
    return dg.define_asset_job(
        pipeline.name,
        selection=dg.AssetSelection.groups(pipeline.name) - dg.AssetSelection.assets(maintenance_key(pipeline)),
        description=pipeline.description,
        executor_def=dg.in_process_executor,
    )


def schedule_of(pipeline: Pipeline, job: dg.UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
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

        if is_idle(current(), list(pipeline.stored)):
            return dg.SkipReason("Nothing is new in any source; the checks show what stands.")
        return dg.RunRequest(tags={WHOLE: pipeline.name})

    return every_15_minutes


def broken_asset(broken: BrokenFile) -> dg.AssetsDefinition:
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


@dg.definitions
def defs() -> dg.Definitions:
    """Assets, checks, jobs, stopped schedules and stopped sensors for each pipeline."""
    pipelines, broken = loaded()
    for file in broken:
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
            *(broken_asset(file) for file in broken),
        ],
        asset_checks=[
            *(topic_check(node) for pipeline in pipelines for node in pipeline.stored if reads_topic(node)),
            *(table_check(node) for pipeline in pipelines for node in pipeline.stored if reads_table(node)),
        ],
        jobs=[*jobs.values(), *care],
        schedules=[schedule_of(pipeline, jobs[pipeline.name]) for pipeline in pipelines]
        + [maintenance_schedule(job) for job in care],
        sensors=[on_new_epoch_sensor(pipeline) for pipeline in pipelines],
        resources={"rivermeet": PlatformResource(), "pyspark": WarmSparkResource()},
        executor=dg.in_process_executor,
    )
