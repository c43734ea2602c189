"""A pipeline over a Delta table as it is run from the command line and in Dagster: progress, status, cures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.cli.sources import run_accepting_loss
from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.defs.runs import RebuildRefusedError, rebuild
from rivermeet.assets.defs.source_checks import judge_source
from rivermeet.assets.epoch.explain import explain
from rivermeet.assets.epoch.idle import idle_run
from rivermeet.assets.reports.quality_report import write_report
from rivermeet.infra.settings import Settings
from rivermeet.infra.sources.delta.ingest import DeltaStep
from rivermeet.infra.sources.standing import Unread
from rivermeet.pipelines import DeltaTable, Node, Pipeline
from tests.assets.home import Home, homed
from tests.infra.sources.delta.shed import Shed


def shop() -> Pipeline:
    made = Pipeline("shop")
    made.table("stock", DeltaTable("orders", schema={"id": "STRING", "n": "TINYINT"}), key=["id"], max_bad_share=0.5)
    return made


def changed(home: Home, node: Node) -> Unread | None:
    step = home.project.source_step(node)
    assert isinstance(step, DeltaStep)
    return step.find_changed()


def metadata(home: Home) -> dict[str, Any]:
    event = home.instance.get_latest_materialization_event(changelog_key(home.pipeline.node("stock")))
    assert event is not None and event.asset_materialization is not None
    return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def test_a_pipeline_over_a_table(shed: Shed, settings: Settings) -> None:
    with homed(shop(), shed.world.root, settings) as home:
        node, path = home.pipeline.node("stock"), shed.path()
        assert f"stock: source 'shop.stock': there is no Delta table at {path}" in status_table(
            home.project, home.pipeline
        )
        assert judge_source(home.project, node).passed is False
        shed.put(("a", 1), ("b", 1000))
        assert judge_source(home.project, node).description == "Nothing was read of the table yet."
        shed.put(("c", 3))
        assert f"  write    versions 0 to 1 of Delta table '{path}'" in list(explain(home.project, home.pipeline))
        assert home.run()
        assert any("epoch 1: 2 rows, 1 dead letter" in line for line in home.said), home.said
        found = metadata(home)
        assert (found["version_in"], found["dead"], "files" in found) == (1, 1, False)
        assert found["input_positions"]["delta"]["end"] == 1
        assert idle_run(home.project, home.pipeline) is True, "nothing new, and no engine was asked"
        assert changed(home, node) == Unread(0, "versions", None)
        shed.table().optimize.compact()
        shed.put(("d", 4))
        shed.put(("e", 5))
        since = next(line["timestamp"] for line in shed.table().history() if line["version"] == 3)
        assert changed(home, node) == Unread(2, "versions", since), "compaction has changed no row"
        assert judge_source(home.project, node).passed
        status = status_table(home.project, home.pipeline)
        assert f"stock: table {path}: read up to version 1, newest version 4" in status
        assert status.splitlines()[3].split()[:6] == ["stock", "table", "1", "2", "3", "1"], "lag 3, one dead letter"
        assert Path(write_report(home.project, [home.pipeline])[0]).exists()

        shed.table().delete("id = 'a'")
        assert not home.run()
        stale = judge_source(home.project, node)
        assert not stale.passed and "version 5 removed rows" in str(stale.description)
        said = "\n".join(home.said)
        assert "version 5 removed rows" in said and "`rivermeet accept-loss shop stock`" in said
        assert run_accepting_loss(home.project, node) == (
            f"stock: 2 records read of versions 2 to 5 of Delta table '{path}'; skipped: versions 5"
        )
        assert run_accepting_loss(home.project, node) == "stock: nothing is lost, and nothing is new"
        assert rebuild(home.project, home.pipeline, ["stock"]), "what the table has now can be read"
        (Path(path) / "_delta_log").rename(Path(path) / "gone")
        shed.put(("new", 1))
        with pytest.raises(RebuildRefusedError, match=f"what it read of table {path} is gone"):
            rebuild(home.project, home.pipeline, ["stock"])
