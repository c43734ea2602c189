"""The check on a commit reads the files that the log names: partitions, offsets and the epoch, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rivermeet.assets.quality.judge import judge_commit
from rivermeet.infra.epochs.context import EpochContext, Quality
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.pipelines import Files, Pipeline

PIPELINE = Pipeline("commits")
FILES = Files("clicks/*.csv", "csv", {"id": "STRING", "at": "BIGINT"})
CLICKS = PIPELINE.stream("clicks", FILES, key=["id"], value=["at"], timestamp="at", partitions=2)
Place = tuple[int, int]
"""Partition and offset."""


def no_spark() -> pytest.MonkeyPatch:
    raise AssertionError("no session is needed")


@pytest.fixture
def commit(tmp_path: Path) -> Callable[[int, Sequence[Place]], int]:
    """Append rows of an epoch; the changelog's version afterwards."""

    def append(epoch: int, places: Sequence[Place]) -> int:
        rows = {
            "partition": pa.array([p for p, _ in places], pa.int32()),
            "offset": pa.array([o for _, o in places], pa.int64()),
            "epoch": pa.array([epoch] * len(places), pa.int64()),
        }
        write_deltalake(str(tmp_path / "tables/commits/clicks/changelog"), pa.table(rows), mode="append")
        return epoch - 1

    return append


def judged(tmp_path: Path, epoch: int, version: int, ends: dict[int, int]) -> tuple[str, int | None, list[str]]:
    log = EpochLog(str(tmp_path / "log"), str(tmp_path / "log.lock"))
    quality = Quality(str(tmp_path / "quality"), tmp_path / "lock", "auto", "1g", tmp_path / "spill")
    context = EpochContext(str(tmp_path / "tables"), log, tmp_path, no_spark, no_spark, quality=quality)  # pyright: ignore[reportArgumentType]
    plan = EpochPlan(pipeline="commits", node="clicks", incarnation=1, epoch=epoch, ends=ends)
    (found,) = judge_commit(context, CLICKS, plan, version)
    assert found.invariant.id == "dense_changelog"
    return found.state, found.checked, [f"{row['partition']}: {row['first_offset']}" for row in found.sample]


@pytest.mark.parametrize(
    ("places", "state", "bad"),
    [
        ([(0, 2), (1, 0), (0, 3)], "passed", []),
        ([], "passed", []),
        ([(0, 2), (0, 4)], "violated", ["0: 2"]),  # a hole
        ([(0, 2), (0, 2), (0, 3)], "violated", ["0: 2"]),  # named twice
        ([(0, 3), (1, 0)], "violated", ["0: 3"]),  # the first is missing
        ([(0, 2), (1, 1)], "violated", ["1: 1"]),
    ],
)
def test_an_epoch_goes_on_where_the_changelog_ended(
    tmp_path: Path,
    commit: Callable[[int, Sequence[Place]], int],
    places: Sequence[Place],
    state: str,
    bad: list[str],
) -> None:
    commit(1, [(0, 0), (0, 1)])
    version = commit(2, places)
    assert judged(tmp_path, 2, version, {0: 1}) == (state, len(places), bad)
    # What came before, or since, does not count.
    commit(3, [(0, 9)])
    assert judged(tmp_path, 1, version, {}) == ("passed", 2, [])
