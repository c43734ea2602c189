"""An audit as it is run in Dagster: an asset with checks that block nobody, a section of the report, a command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner

from rivermeet.assets.cli.main import main
from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.defs import topic_assets
from rivermeet.assets.defs.topic_assets import shadow_key
from rivermeet.assets.reports.quality_report import write_report
from rivermeet.assets.shadow.marks import Marks
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import JSON, Kafka, Pipeline, Text
from tests.assets.home import Home, homed
from tests.infra.sources.kafka.town import Town

pytestmark = pytest.mark.slow


def shop(town: Town) -> Pipeline:
    """A stream whose large records an application keeps, too."""
    made = Pipeline("shop")
    sales = made.stream("sales", Kafka(town.named("sales"), key=Text("id"), value=JSON({"n": "INT"})))
    sales.filter("n > 1", "large").shadowed_by(town.named("out"))
    return made


def checks(home: Home) -> dict[str, bool]:
    run = home.instance.get_runs(limit=1)[0].run_id
    logged = home.instance.all_logs(run, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    found: list[Any] = [e.dagster_event.event_specific_data for e in logged if e.dagster_event]
    key = shadow_key(home.pipeline.shadows[0])
    return {one.check_name: one.passed for one in found if one.asset_key == key}


@pytest.fixture
def home(town: Town, settings: Settings, tmp_path: Path) -> Iterator[Home]:
    """The pipeline in a home of its own, for Dagster and for the command alike."""
    town.make("sales")
    with homed(shop(town), tmp_path / "home", settings, kafka={"bootstrap.servers": town.broker.address}) as made:
        yield made


def shadow(town: Town, home: Home, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        main, ["shadow", "shop", "large", "--topic", town.named("out"), *options], obj=home.project
    )
    return result.exit_code, result.output


@pytest.mark.prove
def test_an_application_that_is_compared(town: Town, home: Home) -> None:
    town.make("out")
    town.send("sales", (0, "a", {"n": 5}, 10), (0, "b", {"n": 1}, 11), (0, "d", {"n": 7}, 13))
    town.send("out", (0, "a", {"n": 5}, 10))
    assert home.run(), home.said
    assert checks(home) == {"nothing_lost": False, "output_is_readable": True}
    page = write_report(home.project, [home.pipeline])[0].read_text()
    assert f"large against topic {town.named('out')}" in page
    assert "LOST missing, lost_row: 1 row." in page
    assert "ours: {&#34;n&#34;:7} @13, caused by" in page
    # What it lacked has come.
    town.send("out", (0, "d", {"n": 7}, 13))
    code, said = shadow(town, home, "--committed")
    assert (code, "2 distinct rows compared, 2 equal" in said) == (0, True), said


@pytest.mark.prove
def test_an_application_that_goes_on_during_the_run(town: Town, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    town.make("out")
    town.send("sales", (0, "a", {"n": 5}, 10))
    town.send("out", (0, "a", {"n": 5}, 10))
    taken = topic_assets.marks_of_run

    def later(*given: Any) -> Marks:
        town.send("sales", (0, "d", {"n": 7}, 13))
        town.send("out", (0, "d", {"n": 7}, 13))
        return taken(*given)

    monkeypatch.setattr(topic_assets, "marks_of_run", later)
    assert home.run(), home.said
    assert checks(home) == {"nothing_lost": True, "output_is_readable": True}, "it was marked before we read"
    assert not list((home.project.settings.home / "marks").rglob("*.json")), "marks are used once"
    assert "lost or wrong, 0 explained" in status_table(home.project, home.pipeline)


@pytest.mark.prove
def test_an_application_that_is_not_there_or_writes_what_is_no_row(town: Town, home: Home) -> None:
    town.send("sales", (0, "a", {"n": 5}, 10))
    assert home.run(), "it blocks nobody"
    assert checks(home) == {"nothing_lost": False, "output_is_readable": False}
    town.make("out")
    town.send("out", (0, "a", {"n": 5}, 10), (0, "c", "x", 12))
    town.send("sales", (0, "d", {"n": 7}, 13))
    code, said = shadow(town, home)
    assert code == 1
    assert "2 distinct rows compared, 1 equal" in said, "what is new was read first"
    assert "1 of them cannot be read as rows of the node and will not be compared" in said
    town.send("out", (0, "d", {"n": 7}, 13))
    code, said = shadow(town, home, "--committed")
    assert (code, "0 lost or wrong, 0 explained" in said) == (1, True), "the record that is no row is still there"
