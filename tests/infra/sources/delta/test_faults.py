"""What happens to a table between two epochs, or under one: nothing is lost or doubled, or a refusal says what is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rivermeet.infra.sources.delta.refusals import (
    FeedOffError,
    VersionsGoneError,
    VersionWentBackError,
)
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.pipelines import DeltaTable, Pipeline, Table
from rivermeet.pipelines.reads.delta import TableChanges
from tests.infra.sources.delta.shed import Shed
from tests.reliability import survived

SCHEMA = {"id": "STRING", "n": "BIGINT"}


def orders(kind: TableChanges = "feed", name: str = "orders") -> Table:
    return Pipeline("shop").table(name, DeltaTable("orders", changes=kind, schema=SCHEMA), key=["id"], partitions=1)


def test_a_copy_that_is_older(shed: Shed, tmp_path: Path) -> None:
    node = orders("append")
    shed.put(("a", 1))
    shutil.copytree(shed.path(), tmp_path / "copy")
    shed.put(("b", 2))
    shed.run(node)
    shutil.rmtree(shed.path())
    shutil.copytree(tmp_path / "copy", shed.path())
    with pytest.raises(VersionWentBackError, match="ends with version 0, and version 1 was read"):
        shed.run(node)
    shed.run(node, accept_loss=True)
    shed.put(("c", 3))
    shed.run(node)
    assert shed.said(node) == [("a", 1), ("b", 2), ("c", 3)]
    survived("an older copy in the place of a Delta table", "refused; `accept-loss` goes on from where it ends")


@pytest.mark.prove
def test_a_feed_that_was_off_meanwhile(shed: Shed) -> None:
    node = orders()
    shed.put(("a", 1), ("b", 2), fed=True)
    shed.run(node)
    shed.sql("ALTER TABLE {t} SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    with pytest.raises(FeedOffError, match="has no change data feed; switch it on"):
        shed.run(node.pipeline.table("other", node.source.reads, key=["id"]))  # pyright: ignore
    shed.sql("DELETE FROM {t} WHERE id = 'a'")
    shed.sql("ALTER TABLE {t} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    with pytest.raises(FeedOffError, match=r"version 2 .* was written without a change data feed"):
        shed.run(node)
    shed.rebuild(node)
    assert shed.folded(node) == [("b", 2)]


@pytest.mark.prove
def test_a_log_that_was_cleaned_up(shed: Shed) -> None:
    node = orders("append")
    shed.put(("a", 1))
    shed.run(node)
    shed.put(("b", 2))
    shed.put(("c", 3))
    shed.table().create_checkpoint()
    for version in (0, 1):
        Path(shed.path(), "_delta_log", f"{version:020}.json").unlink()
    with pytest.raises(VersionsGoneError, match="version 1 of table"):
        shed.run(node)
    result = shed.run(node, accept_loss=True)
    assert result is not None and isinstance(result.plan.reads, VersionRange) and result.plan.reads.lost == (1, 1)
    assert shed.said(node) == [("a", 1), ("c", 3)]
    shed.rebuild(node)
    assert sorted(shed.said(node)) == [("a", 1), ("b", 2), ("c", 3)]
