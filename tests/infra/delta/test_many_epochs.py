"""Thousands of tiny epochs later a step takes as long as at the start, and files are no more than maintenance allows.

The epochs in between are written as commits of ours look, one record each, without running them. What they leave is
what counts: commits, notes, transaction ids, small files, lines of the epoch log. The steps that are compared come
right after a maintenance. Between two of them small files gather, and what that costs is printed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.location import LOG, list_files
from rivermeet.infra.delta.table_care import Retention
from rivermeet.infra.engine.session import new_session, session
from rivermeet.infra.epochs.maintenance import maintain
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Pipeline, Stream, Table
from tests.joins.epochs.batch import FILES, TYPES
from tests.reliability import survived
from tests.world import World

pytestmark = pytest.mark.timeout(7200)

ROUND = 500
"""Epochs from one maintenance to the next."""
FAULT = "thousands of tiny epochs, maintained"
STEPS = 5
SLOWER = 1.5
Change = Callable[[dict[str, Any], int], None]


class History:
    """A table that goes on as it began, a record a commit."""

    def __init__(self, path: str, app_ids: Mapping[str, str], change: Change) -> None:
        self.path, self.app_ids, self.change = Path(path), app_ids, change
        table = DeltaTable(path)
        last = max(map(Path, table.file_uris()), key=lambda file: file.stat().st_mtime_ns)
        self.first = pq.read_table(last)
        self.row = self.first.to_pylist()[-1]

    def goes_on(self, first: int, count: int, note: Callable[[int], str] | None) -> None:
        """Epochs ``first`` and following."""
        table = open_table(str(self.path))
        assert table is not None
        version = table.version()
        for epoch in range(first, first + count):
            for app_id, kind in self.app_ids.items():
                version += 1
                row = json.loads(json.dumps(self.row))
                self.change(row, epoch)
                if kind:
                    row["kind"] = kind
                self._commit(version, app_id, epoch, row, note(epoch) if note else None)
        # Delta writes one every few commits.
        DeltaTable(self.path).create_checkpoint()

    def _commit(self, version: int, app_id: str, epoch: int, row: dict[str, Any], note: str | None) -> None:
        name, now = f"part-{version:05d}.parquet", int(time.time() * 1000)
        pq.write_table(pa.Table.from_pylist([row], self.first.schema), self.path / name, compression="none")
        bounds = {c: v for c, v in row.items() if isinstance(v, int | str)}
        stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": dict.fromkeys(bounds, 0)}
        add = {
            "path": name,
            "partitionValues": {},
            "size": (self.path / name).stat().st_size,
            "modificationTime": now,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        info = {"timestamp": now, "operation": "WRITE", "operationParameters": {"mode": "Append"}, "userMetadata": note}
        txn = {"appId": app_id, "version": epoch, "lastUpdated": now}
        actions = ({"commitInfo": info}, {"txn": txn}, {"add": add})
        text = "".join(json.dumps(action) + "\n" for action in actions)
        (self.path / LOG / f"{version:020d}.json").write_text(text)


def declared() -> tuple[Stream, Table, Stream]:
    pipeline = Pipeline("many")
    left = pipeline.stream("a", FILES, key=["k"], value=["v"], timestamp="ts")
    right = pipeline.table("b", FILES, key=["k"], value=["v"], timestamp="ts")
    return left, right, left.left_join(right, "ab", select={"l": "left.v", "r": "right.v"})


def step(world: World, n: int) -> tuple[float, float]:
    """Seconds of a fold of one record, and of an epoch of the join with one record of each side."""
    left, right, node = declared()
    # Later than its right record, so that it finds it.
    world.publish(left, [((f"k{n}",), ("x",), n + 1, 0)])
    start = time.monotonic()
    world.publish(right, [((f"k{n}",), ("y",), n, 0)])
    folded = time.monotonic()
    assert world.run(node) is not None
    return folded - start, time.monotonic() - folded


def compared(old: World, young: World, n: int, m: int) -> list[tuple[float, float]]:
    """Best seconds of some steps, of both worlds by turns: what else the machine does slows both."""
    taken = [(step(old, n + i), step(young, m + i)) for i in range(STEPS)]
    return [(min(one[0][i] for one in taken), min(one[1][i] for one in taken)) for i in range(2)]


def histories(world: World) -> dict[str, tuple[History, bool]]:
    """Every table of the pipeline, and whether its commits carry notes."""
    runner, (left, right, node) = world.runner("many"), declared()

    def record(row: dict[str, Any], epoch: int) -> None:
        row["key"], row["offset"], row["epoch"], row["timestamp"] = {"k": f"k{epoch}"}, epoch - 1, epoch, epoch

    def live(row: dict[str, Any], epoch: int) -> None:
        row["k"], row["_offset"], row["_timestamp"] = f"k{epoch}", epoch - 1, epoch

    def line(row: dict[str, Any], epoch: int) -> None:
        row["epoch"] = epoch

    found: dict[str, tuple[History, bool]] = {}
    for one in (left, right, node):
        paths = runner.paths(one)
        found[f"{one.name}/changelog"] = History(paths.changelog, {paths.app_id("changelog", 1): ""}, record), True
    paths = runner.paths(right)
    found["b/table"] = History(paths.table, {paths.app_id("fold", 1): ""}, live), True
    found["epoch log"] = History(runner.log.path, {f"ab/{kind}/1": kind for kind in ("plan", "measured")}, line), False
    return found


def note_of(last: CommitNote) -> Callable[[int], str]:
    """The note of a later epoch: one record more each, all in partition 0."""

    def note(epoch: int) -> str:
        ends, times = {**last.ends, 0: epoch - 1}, {**last.times, 0: epoch}
        consumed = {side: {**upto, 0: epoch - 1} for side, upto in last.consumed.items()}
        update = {"epoch": epoch, "ends": ends, "times": times, "consumed": consumed, "stream_time": times}
        return last.model_copy(update=update).model_dump_json()

    return note


@pytest.mark.parametrize(
    "epochs", [pytest.param(1_000, marks=pytest.mark.prove), pytest.param(10_000, marks=pytest.mark.bench)]
)
def test_a_step_stays_as_quick(tmp_path: Path, settings: Settings, epochs: int) -> None:
    spark = session(settings)
    world, young = (
        World(tmp_path / name, spark, new_session(spark), {"a": TYPES, "b": TYPES}, as_sources_do=True)
        for name in ("old", "young")
    )
    node = declared()[2]
    for n in range(1, 4):
        step(world, n)
        step(young, n)
    tables, keep = histories(world), Retention()
    for past in range(3, epochs, ROUND):
        for table, noted in tables.values():
            found = last_note(str(table.path)) if noted else None
            table.goes_on(past + 1, ROUND, note_of(found[1]) if found else None)
        if past + ROUND >= epochs:
            print("before the last maintenance, an old and a young world:", compared(world, young, past + ROUND + 1, 4))
        maintained = maintain(world.runner("many"), node.pipeline, lambda: world.fold_session, keep)
        for one in maintained:
            path = str(tables[one.table][0].path)
            log = [file for file in list_files(path) if file.path.startswith(LOG)]
            assert one.live <= keep.small_files + 1, one
            # A commit has up to four files, with checksums; those since the last checkpoint stay too.
            assert len(log) <= 4 * (keep.versions + 2 * ROUND), one
    done = epochs + 3 + STEPS
    fold, epoch = compared(world, young, done + 1, 4 + STEPS)
    print("after it:", [fold, epoch])
    assert fold[0] <= SLOWER * fold[1], fold
    assert epoch[0] <= SLOWER * epoch[1], epoch
    rows = world.rows(node)
    assert [row["offset"] for row in rows] == list(range(done + STEPS))
    assert all(row["value"] == {"l": "x", "r": "y"} for row in rows)
    survived(FAULT, "after which a step takes at most 1.5 times a young table's", epochs)
