"""A maintenance asset per pipeline, in a job of its own: a run of the pipeline never waits for it.

What it keeps beyond what is needed is its run's configuration (`RetentionConfig`); the daily schedule, stopped until it
is wanted, takes the defaults. Held by ``tests/assets/defs/test_maintain.py``.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from rivermeet.assets.defs.keys import describe_asset, key_of
from rivermeet.assets.defs.metadata import rows_as_table
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.project import Project
from rivermeet.pipelines import Pipeline

if TYPE_CHECKING:
    from rivermeet.infra.delta.table_care import Maintained, Retention


class RetentionConfig(dg.Config):
    """What is kept beyond what is needed; as in ``infra/delta/table_care.py``."""

    versions: int = 200
    small_files: int = 32
    late: int | None = None
    dead_letter: int | None = None
    measured: int | None = None


def maintenance_key(pipeline: Pipeline) -> dg.AssetKey:
    """The maintenance of a pipeline's tables."""
    return key_of(pipeline, "maintenance")


def maintain_pipeline(project: Project, pipeline: Pipeline, keep: "Retention") -> "list[Maintained]":
    """Maintain all tables of a pipeline, and the quality table that pipelines share."""
    from filelock import FileLock

    from rivermeet.infra.epochs.maintenance import maintain, maintain_lines

    context = project.context(pipeline)
    done = maintain(context, pipeline, project.sessions.open_for_folds, keep)
    with FileLock(project.settings.home / "locks" / "quality.lock"):
        return done + maintain_lines(project.quality.table, "quality", keep)


def maintenance_asset(pipeline: Pipeline) -> dg.AssetsDefinition:
    """The maintenance asset of one pipeline."""

    @dg.asset(
        key=maintenance_key(pipeline),
        **describe_asset(pipeline),
        kinds={"delta"},
        description=f"OPTIMIZE, VACUUM and log clean-up of the tables of `{pipeline.name}`. What an open plan or a "
        "join that lags may still need stays.",
    )
    def maintenance(config: RetentionConfig, rivermeet: ProjectResource) -> dg.MaterializeResult[Any]:
        from rivermeet.infra.delta.table_care import Retention

        done = maintain_pipeline(rivermeet.project, pipeline, Retention(**config.model_dump()))
        return dg.MaterializeResult(metadata=_metadata(done))

    return maintenance


def maintenance_job(pipeline: Pipeline) -> "dg.UnresolvedAssetJobDefinition":
    """The job that runs it."""
    return dg.define_asset_job(
        f"{pipeline.name}_maintenance",
        selection=dg.AssetSelection.assets(maintenance_key(pipeline)),
        description=f"Keeps the tables of {pipeline.name} small",
        executor_def=dg.in_process_executor,
    )


def maintenance_schedule(job: "dg.UnresolvedAssetJobDefinition") -> dg.ScheduleDefinition:
    """Every night at three, once it is started."""
    return dg.ScheduleDefinition(
        name=f"{job.name}_daily",
        job=job,
        cron_schedule="0 3 * * *",
        default_status=dg.DefaultScheduleStatus.STOPPED,
    )


def _metadata(done: "Sequence[Maintained]") -> Mapping[str, Any]:
    columns = ("files_before", "files_after", "bytes_before", "bytes_after")
    lines = [
        {"table": one.table, "did": ", ".join(one.did) or "nothing", "live_files": one.live}
        | dict(zip(columns, (*one.files, *one.size), strict=True))
        for one in done
    ]
    totals = {name: sum(line[name] for line in lines) for name in columns}  # pyright: ignore[reportArgumentType]
    return {**totals, "tables": rows_as_table(lines)}
