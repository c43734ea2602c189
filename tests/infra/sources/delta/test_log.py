"""Entries of a Delta log, read without Spark: what changed rows, when, and what is still there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rivermeet.infra.sources.delta.log import commits, find_missing, versions


def entry(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True, parents=True)
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)), "utf-8")


def add(path: str, change: bool = True, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "dataChange": change, "size": 640, "modificationTime": 7_000, **more}}


def remove(path: str, change: bool = True) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": change}}


@pytest.mark.parametrize(
    ("actions", "added", "removed", "changed", "time"),
    [
        pytest.param([add("a.parquet")], ["a.parquet"], [], [], 7_000, id="no commitInfo: the newest file's time"),
        pytest.param([{"commitInfo": {"timestamp": 5_000}}, add("a")], ["a"], [], [], 5_000, id="commitInfo"),
        pytest.param(
            [{"commitInfo": {"timestamp": 5_000, "inCommitTimestamp": 6_000}}], [], [], [], 6_000, id="in-commit time"
        ),
        pytest.param([remove("a", False), remove("b", False), add("c", False)], [], [], [], 0, id="compaction"),
        pytest.param([remove("a"), add("b")], ["b"], ["a"], [], 7_000, id="rows removed"),
        pytest.param([remove("a"), {"cdc": {"path": "_change_data/c"}}], [], ["a"], ["_change_data/c"], 0, id="cdc"),
        pytest.param([add("day=1%20%252F/a.parquet")], ["day=1 %2F/a.parquet"], [], [], 7_000, id="encoded once"),
    ],
)
def test_what_a_commit_did(
    tmp_path: Path, actions: list[dict[str, Any]], added: list[str], removed: list[str], changed: list[str], time: int
) -> None:
    entry(tmp_path, 3, *actions)
    (found,) = commits(str(tmp_path), 3, 3)
    paths = [[file.path for file in files] for files in (found.added, found.removed, found.changed)]
    assert (paths, found.timestamp) == ([added, removed, changed], time)


def test_rows_partitions_and_vectors(tmp_path: Path) -> None:
    stats, vector = json.dumps({"numRecords": 5}), {"storageType": "u"}
    entry(tmp_path, 0, add("a", stats=stats, partitionValues={"day": ""}), add("b", deletionVector=vector))
    (found,) = commits(str(tmp_path), 0, 0)
    assert [(f.rows, dict(f.partition)) for f in found.added] == [(5, {"day": None}), (20, {})]


def test_versions_that_are_there(tmp_path: Path) -> None:
    """The oldest that can be read whole is 0, or the first checkpoint where the log was cut."""
    path = str(tmp_path / "t")
    for n in range(4):
        write_deltalake(path, pa.table({"n": [n]}), mode="append")
    assert versions(path) == ([0, 1, 2, 3], 0)
    DeltaTable(path, version=2).create_checkpoint()
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").unlink()
    assert versions(path) == ([1, 2, 3], 2)


def test_files_that_are_not(tmp_path: Path) -> None:
    (tmp_path / "a b.parquet").touch()
    assert find_missing(str(tmp_path), ["a b.parquet", "gone.parquet", "/elsewhere/x.parquet"]) == ["gone.parquet"]
