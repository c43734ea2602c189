"""The maintenance asset and ``rivermeet maintain``, where there is nothing that needs Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from rivermeet.assets.cli.maintain import maintain
from rivermeet.assets.defs.maintenance import maintenance_asset, maintenance_job, maintenance_key, maintenance_schedule
from rivermeet.assets.defs.resource import PlatformResource
from rivermeet.assets.epoch.platform import Platform, use
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Pipeline, load


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A home with an epoch log of many lines, and no tables."""
    for name in ("RIVERMEET_TABLES", "RIVERMEET_DATA", "RIVERMEET_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RIVERMEET_HOME", str(tmp_path))
    platform = use(Platform(Settings.from_env()))
    log = platform.runner(invoice()).log
    for epoch in range(1, 41):
        log.write("purchases", 1, epoch, "measured", "{}")
    return platform


def invoice() -> Pipeline:
    return load("invoice")


def command(*arguments: str) -> Result:
    return CliRunner().invoke(maintain, arguments)


def test_a_line_per_table_that_changed(platform: Platform) -> None:
    first, second = command("invoice"), command("invoice")
    assert first.exit_code == second.exit_code == 0, first.output
    changed, total = first.output.splitlines()
    assert changed.startswith("epoch log ") and "optimized: files 80 -> 84; bytes " in changed
    assert total == "1 of 1 tables changed"
    assert second.output == "0 of 1 tables changed\n"


def test_a_wrong_name_is_one_line_with_the_choices(platform: Platform) -> None:
    says = "Error: no pipeline 'invoic'; there are flights, invoice\n"
    assert (command("invoic").exit_code, command("invoic").output) == (1, says)


def test_the_asset_shows_each_table(platform: Platform) -> None:
    key = maintenance_key(invoice())
    result = dg.materialize([maintenance_asset(invoice())], resources={"rivermeet": PlatformResource()})
    (event,) = result.asset_materializations_for_node("__".join(key.path))
    metadata: dict[str, Any] = {name: entry.value for name, entry in event.metadata.items()}
    assert (metadata["files_before"], metadata["files_after"]) == (80, 84)
    assert metadata["bytes_after"] > 0
    (line,) = metadata["tables"].records
    assert (line.data["table"], line.data["did"], line.data["live_files"]) == ("epoch log", "optimized", 1)


def test_its_job_is_its_own_and_its_schedule_stopped() -> None:
    job = maintenance_job(invoice())
    defs = dg.Definitions(
        assets=[maintenance_asset(invoice())],
        jobs=[job],
        schedules=[maintenance_schedule(job)],
        resources={"rivermeet": PlatformResource()},
    )
    graph = defs.get_repository_def().asset_graph
    assert graph.get(maintenance_key(invoice())).group_name == "invoice"
    assert defs.get_schedule_def("invoice_maintenance_daily").default_status == dg.DefaultScheduleStatus.STOPPED
