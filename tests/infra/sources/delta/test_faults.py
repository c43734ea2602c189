"""What happens to a table between two epochs, or under one: nothing is lost or doubled, or a refusal says what is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rivermeet.infra.sources.delta import ingest
from rivermeet.infra.sources.delta.refusals import (
    DeltaTableMissingError,
    DeltaTableRefusedError,
    FeedOffError,
    TablePositionLostError,
    TableRemadeError,
    VersionsGoneError,
    VersionWentBackError,
)
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.pipelines import DeltaTable, Pipeline, Table
from rivermeet.pipelines.reads.delta import TableChanges
from tests.crashes import crashing_at
from tests.infra.sources.delta.shed import Shed
from tests.reliability import survived

SCHEMA = {"id": "STRING", "n": "BIGINT"}
BOTH = pytest.mark.parametrize("kind", ["append", "feed"])


def orders(kind: TableChanges = "feed", name: str = "orders") -> Table:
    return Pipeline("shop").table(name, DeltaTable("orders", changes=kind, schema=SCHEMA), key=["id"], partitions=1)


def overwritten_and_vacuumed(shed: Shed, kind: str) -> None:
    """Two versions whose files are gone: appended and compacted, or changed twice."""
    if kind == "append":
        shed.put(("b", 2))
        shed.table().optimize.compact()
    else:
        shed.sql("UPDATE {t} SET n = 5 WHERE id = 'a'")
        shed.put(("b", 2), ("c", 3), mode="overwrite")
    shed.vacuum()
    shed.put(("d", 4))


@BOTH
def test_vacuum_before_versions_were_read(shed: Shed, kind: TableChanges) -> None:
    node = orders(kind)
    shed.put(("a", 1), fed=True)
    shed.run(node)
    overwritten_and_vacuumed(shed, kind)
    for _ in range(2):
        with pytest.raises(VersionsGoneError, match=r"version.* 1.* cannot be read any more") as refused:
            shed.run(node)
    assert "`rivermeet rebuild shop --select orders`" in str(refused.value)
    assert "`rivermeet accept-loss shop orders`" in str(refused.value)
    result = shed.run(node, accept_loss=True)
    assert result is not None and isinstance(result.plan.reads, VersionRange)
    if kind == "append":
        assert result.plan.reads.passed == (1,)
        assert shed.said(node) == [("a", 1), ("d", 4)]
    else:
        assert result.plan.reads.lost is not None
        assert shed.folded(node) == [("a", 1), ("b", 2), ("c", 3), ("d", 4)], "nobody knows that a was deleted"
    assert shed.run(node) is None, "and goes on from there"
    shed.rebuild(node)
    assert shed.folded(node) == shed.there()
    survived("VACUUM of a Delta table before its versions were read", "refused with what is gone, and the cure")


@BOTH
def test_vacuum_between_plan_and_read(shed: Shed, kind: TableChanges) -> None:
    """The plan that stands can be read no more: a refusal, and no other rows; it is put aside once that is accepted."""
    node = orders(kind)
    shed.put(("a", 1), fed=True)
    shed.run(node)
    if kind == "append":
        shed.put(("b", 2))
    else:
        shed.sql("UPDATE {t} SET n = 5 WHERE id = 'a'")
    with crashing_at("planned"):
        shed.run(node)
    shed.table().optimize.compact()
    shed.put(("d", 4), mode="append" if kind == "append" else "overwrite")
    shed.vacuum()
    with pytest.raises(VersionsGoneError):
        shed.run(node)
    result = shed.run(node, accept_loss=True)
    assert result is not None and result.plan.epoch == 3
    assert shed.said(node)[-1] == ("d", 4)
    survived("VACUUM of a Delta table between plan and read", "refused with what is gone, and the cure")


def test_vacuum_while_it_is_read(shed: Shed, monkeypatch: pytest.MonkeyPatch) -> None:
    node = orders("append")
    shed.put(("a", 1))
    shed.run(node)
    shed.put(("b", 2))
    asked = ingest.unreadable

    def late(*given: Any) -> DeltaTableRefusedError | None:
        found = asked(*given)
        monkeypatch.setattr(ingest, "unreadable", asked)
        shed.table().optimize.compact()
        shed.vacuum()
        return found

    monkeypatch.setattr(ingest, "unreadable", late)
    with pytest.raises(VersionsGoneError):
        shed.run(node)


@BOTH
def test_a_table_that_was_recreated(shed: Shed, kind: TableChanges) -> None:
    node = orders(kind)
    shed.put(("a", 1), fed=True)
    shed.put(("b", 2))
    shed.run(node)
    shutil.rmtree(shed.path())
    with pytest.raises(DeltaTableMissingError, match="there is no Delta table at"):
        shed.run(node)
    for n in range(3):
        shed.put((f"new {n}", n), fed=True)
    with pytest.raises(TableRemadeError, match="was deleted and recreated"):
        shed.run(node)
    assert shed.step(node).lost() is not None, "a rebuild would not find what it has read"
    assert shed.run(node, accept_loss=True) is not None
    assert shed.said(node) == [("a", 1), ("b", 2), ("new 0", 0), ("new 1", 1), ("new 2", 2)]
    assert shed.run(node) is None
    survived("a Delta table deleted or recreated at its place", "refused; `accept-loss` goes on with the new one")


def test_a_table_that_is_recreated_while_it_is_read(shed: Shed, monkeypatch: pytest.MonkeyPatch) -> None:
    node = orders("append")
    shed.put(("a", 1))
    asked = ingest.unreadable

    def late(*given: Any) -> DeltaTableRefusedError | None:
        found = asked(*given)
        monkeypatch.setattr(ingest, "unreadable", asked)
        shutil.rmtree(shed.path())
        shed.put(("other", 9))
        return found

    monkeypatch.setattr(ingest, "unreadable", late)
    with pytest.raises(TableRemadeError):
        shed.run(node)


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


def test_an_epoch_log_that_is_lost(shed: Shed) -> None:
    """To start over would be to read everything twice."""
    node = orders("append")
    shed.put(("a", 1))
    shed.run(node)
    shutil.rmtree(shed.world.root / "epochs")
    with pytest.raises(TablePositionLostError, match=r"no plan of epoch 1.*`rivermeet rebuild shop --select orders`"):
        shed.run(node)


POINTS = ["planned", "committed", *(pytest.param(p, marks=pytest.mark.prove) for p in ("computed", "recorded"))]


@pytest.mark.parametrize("kind", [pytest.param("append", marks=pytest.mark.prove), "feed"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_point(shed: Shed, kind: TableChanges, point: str) -> None:
    """Versions that came meanwhile belong to the next epoch; nothing is lost or doubled."""
    node, whole = orders(kind), replace(orders(kind), name="whole")
    shed.put(("a", 1), ("b", 2), fed=True)
    with crashing_at(point):
        shed.run(node)
    shed.run(whole)
    shed.put(("c", 3))
    shed.table().optimize.compact()
    while shed.run(node) is not None:
        pass
    shed.run(whole)
    assert shed.records(node) == shed.records(whole)
    survived(f"kill of a Delta table's epoch, {point}", "the next run ends in the rows of an undisturbed one")
