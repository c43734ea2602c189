"""The maintenance asset and ``rivermeet maintain``, where there is nothing that needs Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from rivermeet.assets.cli.main import main
from rivermeet.assets.defs.maintenance import maintenance_asset, maintenance_job, maintenance_key, maintenance_schedule
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.project import Project, demo_project
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Pipeline
from tests.assets.home import project_in


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A home with an epoch log of many lines, and no tables."""
    project = project_in(tmp_path, Settings.from_env({}), *demo_project().pipelines)
    log = project.context(invoice()).log
    for epoch in range(1, 41):
        log.write("purchases", 1, epoch, "measured", "{}")
    return project


def invoice() -> Pipeline:
    return demo_project().pipeline("invoice")


def command(project: Project, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["maintain", *arguments], obj=project)


def test_a_line_per_table_that_changed(project: Project) -> None:
    first, second = command(project, "invoice"), command(project, "invoice")
    assert first.exit_code == second.exit_code == 0, first.output
    changed, total = first.output.splitlines()
    assert changed.startswith("epoch log ") and "optimized: files 80 -> 84; bytes " in changed
    assert total == "1 of 1 table changed"
    assert second.output == "0 of 1 table changed\n"


def test_a_wrong_name_is_one_line_with_the_choices(project: Project) -> None:
    says = "Error: no pipeline 'invoic'; there are flights, invoice\n"
    assert (command(project, "invoic").exit_code, command(project, "invoic").output) == (1, says)


def test_the_asset_shows_each_table(project: Project) -> None:
    key = maintenance_key(invoice())
    result = dg.materialize([maintenance_asset(invoice())], resources={"rivermeet": ProjectResource(project=project)})
    (event,) = result.asset_materializations_for_node("__".join(key.path))
    metadata: dict[str, Any] = {name: entry.value for name, entry in event.metadata.items()}
    assert (metadata["files_before"], metadata["files_after"]) == (80, 84)
    assert metadata["bytes_after"] > 0
    (line,) = metadata["tables"].records
    assert (line.data["table"], line.data["did"], line.data["live_files"]) == ("epoch log", "optimized", 1)


def test_its_job_is_its_own_and_its_schedule_stopped(project: Project) -> None:
    job = maintenance_job(invoice())
    defs = dg.Definitions(
        assets=[maintenance_asset(invoice())],
        jobs=[job],
        schedules=[maintenance_schedule(job)],
        resources={"rivermeet": ProjectResource(project=project)},
    )
    graph = defs.get_repository_def().asset_graph
    assert graph.get(maintenance_key(invoice())).group_name == "invoice"
    assert defs.get_schedule_def("invoice_maintenance_daily").default_status == dg.DefaultScheduleStatus.STOPPED
