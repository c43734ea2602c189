"""The next range of versions, of tables that delta-rs has written; no Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as Written
from deltalake import write_deltalake

from rivermeet.infra.sources.delta.ranges import next_range
from rivermeet.infra.sources.delta.refusals import (
    DeltaTableMissingError,
    RowsRemovedError,
    TableRemadeError,
    VersionsGoneError,
)
from rivermeet.infra.sources.delta.table import table_state
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.pipelines import DeltaTable
from rivermeet.pipelines.reads.delta import TableChanges

NAME = "shop.orders"


def put(path: str, *numbers: int, fed: bool = True, mode: str = "append") -> None:
    properties = {"delta.enableChangeDataFeed": str(fed).lower()}
    write_deltalake(path, pa.table({"n": list(numbers)}), mode=mode, configuration=properties)  # pyright: ignore


def vacuum(path: str) -> None:
    Written(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)


def following(path: str, kind: TableChanges, before: VersionRange | None = None, accept: bool = False) -> VersionRange:
    table = DeltaTable(path, changes=kind, schema={"n": "BIGINT"})
    return next_range(before, table_state(path, NAME), table, NAME, accept)


def shape(found: VersionRange) -> tuple[int | None, int, int]:
    return found.snapshot, found.start, found.end


@pytest.mark.parametrize(
    ("kind", "change", "expected"),
    [
        pytest.param("append", "nothing", (None, 0, 1), id="append: all versions"),
        pytest.param("feed", "nothing", (0, 1, 1), id="feed: the first version whole, then the changes"),
        pytest.param("append", "delete", (2, 3, 2), id="append, rows were removed: the newest, whole"),
        pytest.param("feed", "delete", (0, 1, 2), id="feed, rows were removed: no difference"),
        pytest.param("append", "compact", (None, 0, 2), id="append, compacted: the files that were added"),
        pytest.param("append", "vacuum", (2, 3, 2), id="append, and those are gone: the newest, whole"),
        pytest.param("feed", "vacuum", (2, 3, 2), id="feed, and those are gone: the newest, whole"),
    ],
)
def test_a_first_range(tmp_path: Path, kind: TableChanges, change: str, expected: tuple[int | None, int, int]) -> None:
    path = str(tmp_path)
    put(path, 1, 2)
    put(path, 3)
    if change == "delete":
        Written(path).delete("n = 1")
    if change in ("compact", "vacuum"):
        Written(path).optimize.compact()
    if change == "vacuum":
        vacuum(path)
    found = shape(following(path, kind))
    if change == "vacuum":
        latest = Written(path).version()
        assert found == (latest, latest + 1, latest)
    else:
        assert found == expected


@pytest.mark.parametrize("kind", ["append", "feed"])
def test_the_next_range(tmp_path: Path, kind: TableChanges) -> None:
    path = str(tmp_path)
    put(path, 1)
    first = following(path, kind)
    assert not following(path, kind, first).unread
    put(path, 2, 3)
    found = following(path, kind, first)
    assert (shape(found), found.rows) == ((None, 1, 1), 2)


def test_refusals(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with pytest.raises(DeltaTableMissingError, match="RIVERMEET_DATA"):
        table_state(path, NAME)
    put(path, 1)
    first = following(path, "append")
    with pytest.raises(TableRemadeError, match=r"accept-loss shop orders.*rebuild shop --select orders --lose"):
        following(path, "append", first.model_copy(update={"id": "another"}))
    put(path, 2)
    Written(path).optimize.compact()
    vacuum(path)
    with pytest.raises(VersionsGoneError, match="version 1 of table"):
        following(path, "append", first)
    assert following(path, "append", first, accept=True).passed == (1,)
    last = following(path, "append", first, accept=True)
    put(path, 9, mode="overwrite")
    with pytest.raises(RowsRemovedError, match=f"version {last.end + 1} removed rows"):
        following(path, "append", last)
