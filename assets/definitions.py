"""All declared pipelines as one Dagster code location.

Importing this loads neither Spark nor Great Expectations: the code server, the daemon and every run import it.
"""

from __future__ import annotations

import dagster as dg

from assets.defs.automation import EVERY_15_MINUTES, WHOLE, on_new_epoch_sensor
from assets.defs.maintenance import maintenance_asset, maintenance_job, maintenance_key, maintenance_schedule
from assets.defs.node_assets import node_assets
from assets.defs.resource import PlatformResource
from assets.reports.quality_report import report_asset
from pipelines import Pipeline, load_all


def job_of(pipeline: Pipeline) -> dg.UnresolvedAssetJobDefinition:
    """The job that materialises a whole pipeline."""
    return dg.define_asset_job(
        pipeline.name,
        selection=dg.AssetSelection.groups(pipeline.name) - dg.AssetSelection.assets(maintenance_key(pipeline)),
        description=pipeline.description,
        executor_def=dg.in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Assets, checks, jobs, stopped schedules and stopped sensors for each pipeline."""
    pipelines = load_all()
    jobs = {pipeline.name: job_of(pipeline) for pipeline in pipelines}
    care = [maintenance_job(pipeline) for pipeline in pipelines]
    return dg.Definitions(
        assets=[
            *(node_assets(node) for pipeline in pipelines for node in pipeline.stored),
            *(maintenance_asset(pipeline) for pipeline in pipelines),
            report_asset(pipelines),
        ],
        jobs=[*jobs.values(), *care],
        schedules=[
            dg.ScheduleDefinition(
                name=f"{name}_every_15_minutes",
                job=job,
                cron_schedule=EVERY_15_MINUTES,
                tags={WHOLE: name},
                default_status=dg.DefaultScheduleStatus.STOPPED,
            )
            for name, job in jobs.items()
        ]
        + [maintenance_schedule(job) for job in care],
        sensors=[on_new_epoch_sensor(pipeline) for pipeline in pipelines],
        resources={"rivermeet": PlatformResource()},
        executor=dg.in_process_executor,
    )
