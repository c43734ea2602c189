"""A pipeline that writes a topic, as it is run from the command line and in Dagster: progress, checks, status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.defs.topic_assets import topic_key
from rivermeet.assets.epoch.explain import explain
from rivermeet.assets.epoch.idle import idle_run
from rivermeet.assets.sinks import delivery
from rivermeet.infra.settings import Settings
from rivermeet.infra.sinks.kafka import deliver as sending
from rivermeet.pipelines import JSON, Kafka, Pipeline, Text
from tests.assets.home import Home, homed
from tests.infra.sinks.test_delivery import committed
from tests.infra.sources.kafka.town import Town

pytestmark = pytest.mark.slow


def shop(town: Town) -> Pipeline:
    """Two topics, joined, and the join written to a third."""
    made, value = Pipeline("shop"), JSON({"n": "INT"})
    stock = made.table("stock", Kafka(town.named("stock"), key=Text("id"), value=value))
    price = made.table("price", Kafka(town.named("price"), key=Text("id"), value=JSON({"eur": "INT"})))
    both = stock.join(price, "both", select={"n": "left.n", "eur": "right.eur"})
    both.to_topic(town.named("both"), partitions=2)
    return made


def checks(home: Home) -> dict[str, bool]:
    """Those of the topic in the newest run."""
    run = home.instance.get_runs(limit=1)[0].run_id
    logged = home.instance.all_logs(run, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    found: list[Any] = [e.dagster_event.event_specific_data for e in logged if e.dagster_event]
    key = topic_key(home.pipeline.sinks[0])
    return {one.check_name: one.passed for one in found if one.asset_key == key}


@pytest.mark.prove
def test_a_pipeline_that_writes_a_topic(
    town: Town, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("stock", "price"):
        town.make(topic)
    with homed(shop(town), tmp_path / "home", settings, kafka={"bootstrap.servers": town.broker.address}) as home:
        out = town.named("both")
        town.send("stock", (0, "a", {"n": 1}, 10), (0, "b", {"n": 2}, 11))
        town.send("price", (0, "a", {"eur": 5}, 12))
        assert home.run(), home.said
        assert any(f"topic {out} at epoch 1: 1 row of 1 epoch;" in line for line in home.said), home.said
        assert checks(home) == {"all_rows_delivered": True, "rows_read_back": True}
        assert [(m.key(), m.value()) for m in committed(town, out)] == [(b"a", b'{"n": 1, "eur": 5}')]
        status = status_table(home.project, home.pipeline)
        assert f"both: delivered to topic '{out}' up to epoch 1, all of it" in status
        assert idle_run(home.project, home.pipeline) is True, "nothing new, and no broker was asked for the topic"

        # A broker that is down while the join commits: what it lacks is delivered by a run that finds nothing new.
        with monkeypatch.context() as patched:
            patched.setattr(delivery, "deliver_rows", _down)
            town.send("stock", (0, "a", None, 20))
            assert not home.run()
        assert "1 row of 1 epoch behind" in status_table(home.project, home.pipeline)
        planned = list(explain(home.project, home.pipeline))
        assert f"  topic    {out}, delivered up to epoch 1; due: 1 row of 1 epoch, and what this run commits" in planned
        assert idle_run(home.project, home.pipeline) is None
        assert home.run(), home.said
        assert [(m.key(), m.value()) for m in committed(town, out)][1:] == [(b"a", None)]
        assert checks(home) == {"all_rows_delivered": True, "rows_read_back": True}

        # An epoch without rows leaves nothing to deliver.
        town.send("stock", (0, "z", {"n": 9}, 30))
        assert home.run(), home.said
        assert idle_run(home.project, home.pipeline) is True


def _down(project: object, sink: object) -> None:
    raise OSError("the broker is down")


def test_a_row_that_the_topic_lacks_is_red(
    town: Town, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: one row of a part is not sent, and the broker's answers are counted as if it had been."""
    for topic in ("stock", "price"):
        town.make(topic)
    with homed(shop(town), tmp_path / "home", settings, kafka={"bootstrap.servers": town.broker.address}) as home:
        town.send("stock", (0, "a", {"n": 1}, 10), (0, "b", {"n": 2}, 11))
        town.send("price", (0, "a", {"eur": 5}, 12), (0, "b", {"eur": 6}, 12))
        sent = sending._produce

        def lossy(producer: Any, topic: str, row: Any, acknowledged: Any) -> None:
            if row.key == b"b":
                acknowledged.count += 1
            else:
                sent(producer, topic, row, acknowledged)

        monkeypatch.setattr(sending, "_produce", lossy)
        assert not home.run()
        assert checks(home) == {"all_rows_delivered": True, "rows_read_back": False}
