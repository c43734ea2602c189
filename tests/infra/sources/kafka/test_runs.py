"""A pipeline over a topic as it is run from the command line and in Dagster: progress, status, metadata, cures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import dagster as dg
import pytest

from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.cli.sources import retry_letters, run_accepting_loss
from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.defs.runs import RebuildRefusedError, rebuild
from rivermeet.assets.epoch.explain import explain
from rivermeet.assets.epoch.idle import idle_run
from rivermeet.assets.reports.quality_report import histories, write_report
from rivermeet.infra.settings import Settings
from rivermeet.infra.sources.kafka import ingest
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.pipelines import JSON, Files, Kafka, Pipeline, Text, limits
from tests.assets.home import Home, homed, project_in
from tests.infra.sources.kafka.town import Town

pytestmark = pytest.mark.slow


def shop(town: Town) -> Pipeline:
    made = Pipeline("shop")
    value = JSON({"n": "INT"})
    made.table("stock", Kafka(town.named("stock"), key=Text("id"), value=value), max_bad_share=0.5)
    return made


def metadata(home: Home) -> dict[str, Any]:
    """Of the newest materialisation of the changelog."""
    event = home.instance.get_latest_materialization_event(changelog_key(home.pipeline.node("stock")))
    assert event is not None and event.asset_materialization is not None
    return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def written(home: Home) -> str:
    """The quality report."""
    path, _ = write_report(home.project, [home.pipeline])
    return Path(path).read_text()


def test_a_pipeline_over_a_topic(
    town: Town, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = town.make("stock", 2)
    kafka = {"bootstrap.servers": town.broker.address, "client.id": "s3cret"}
    with homed(shop(town), tmp_path / "home", settings, kafka=kafka) as home:
        node = home.pipeline.node("stock")
        town.send("stock", (0, "a", {"n": 1}, 10), (1, "b", {"n": "x"}, 11), (0, "c", {"n": 3}, 12))
        planned = list(explain(home.project, home.pipeline))
        assert f"           {topic}/0: offsets 0-1" in planned
        assert f"  write    3 offsets of topic '{topic}'" in planned
        assert home.run()
        assert any("epoch 1: 2 rows, 1 dead letter" in line for line in home.said), home.said
        found = metadata(home)
        assert (found["offsets_in"], found["lag_held_back"], found["dead"]) == (3, 0, 1)
        assert found["input_positions"]["topic"]["ranges"] == {"0": [0, 2], "1": [0, 1]}
        assert "files" not in found
        assert found["lag_seconds"] > 1e9, "records of 1970 are old"
        newest = [record.data["newest"] for record in found["lag_by_partition"].records]
        assert newest == ["1970-01-01 00:00 UTC"] * 2
        assert idle_run(home.project, home.pipeline) is True, "nothing new, and no engine was asked"

        town.send("stock", (0, "a", None, 2020))
        with monkeypatch.context() as patched:
            asked: list[str] = []
            patched.setattr(ingest, "topic_state", lambda *given: asked.append(given[1]) or topic_state(*given))
            status = status_table(home.project, home.pipeline)
            assert asked.count(topic) == 1, "the broker is asked once"
        lag = "consumed up to 2, stable end 3, high watermark 3, 2.0 s behind, newest record read "
        assert f"stock: topic '{topic}', partition 0: {lag}" in status
        (page,) = histories(home.project, [home.pipeline])[0].nodes
        assert page.read is not None and page.read.rows == [(0, 2, 2, 0, 12, 12), (1, 1, 1, 0, 11, 11)]
        assert f"<caption>Topic {topic}, when its newest epoch was planned" in written(home)
        assert status.splitlines()[3].split()[:6] == ["stock", "table", "1", "2", "1", "1"], "lag 1, one dead letter"
        town.grow("stock", 3)
        assert home.run()
        assert any(
            "WARNING topic" in line and "has got partitions 2; keys may lie elsewhere" in line for line in home.said
        )
        assert retry_letters(home.project, node) == "stock: 1 dead letter retried, 0 records, 1 still dead"

        town.send("stock", (0, "d", {"n": 4}, 30), (0, "e", {"n": 5}, 31))
        town.remove_before("stock", {0: 4})
        assert not home.run()
        said = "\n".join(home.said)
        assert "has removed records before they were read" in said and "`rivermeet accept-loss shop stock`" in said
        assert town.broker.address not in said and "s3cret" not in said
        with pytest.raises(RebuildRefusedError, match=f"what it read of topic '{topic}' is gone"):
            rebuild(home.project, home.pipeline, ["stock"])
        assert run_accepting_loss(home.project, node) == (
            "stock: 1 record read from offsets 0: 4, 1: 1, 2: 0; lost: partition 0, offsets 3 to 3"
        )
        everything = repr(
            home.instance.get_event_records(dg.EventRecordsFilter(dg.DagsterEventType.ASSET_MATERIALIZATION))
        )
        assert town.broker.address not in everything and "s3cret" not in everything


def test_status_without_a_broker(
    town: Town, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BROKER_SECONDS", 0.5)
    unreachable = project_in(tmp_path, settings, kafka={"bootstrap.servers": "127.0.0.1:1"})
    status = status_table(unreachable, shop(town))
    assert "stock: topic" in status and "the broker that RIVERMEET_KAFKA names does not answer" in status
    assert "127.0.0.1" not in status
    assert "stock: a topic is read or written, and no broker is named: set RIVERMEET_KAFKA" in status_table(
        project_in(tmp_path, settings, kafka={}), shop(town)
    )


def test_only_topics_lose_records(settings: Settings, tmp_path: Path) -> None:
    made = Pipeline("shop")
    node = made.stream("files", Files("*.csv", "csv", {"id": "INT", "n": "INT"}), key=["id"], timestamp="n")
    with pytest.raises(click.ClickException, match=r"'shop.files' reads no Delta table and no"):
        run_accepting_loss(project_in(tmp_path, settings), node)
