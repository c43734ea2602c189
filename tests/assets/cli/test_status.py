"""`rivermeet status` shows all sources, also where one cannot be asked how far it is."""

from __future__ import annotations

from pathlib import Path

from rivermeet.assets.cli.show.status import status_table
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import DeltaTable, Files, Pipeline
from tests.assets.home import project_in


def test_a_source_that_cannot_be_asked_says_why_and_hides_no_other(tmp_path: Path) -> None:
    shop = Pipeline("shop")
    schema = {"id": "STRING", "n": "INT"}
    shop.table("stock", DeltaTable("s3://key:secret@lake/stock", schema=schema), key=["id"])
    shop.stream("orders", Files("*.csv", "csv", {**schema, "at": "BIGINT"}), key=["id"], timestamp="at")
    shown = status_table(project_in(tmp_path, Settings.from_env({})), shop)
    assert "\nstock: table path 's3://***@lake/stock' holds a credential, which plans and logs would show" in shown
    assert "\norders " in shown
