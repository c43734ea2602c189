"""Maintenance takes what nobody can ask for, and nothing else: not from an open plan, nor from a join that lags."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rivermeet.infra import crash
from rivermeet.infra.delta.io import last_note, notes, read
from rivermeet.infra.delta.lines import append_lines, open_table
from rivermeet.infra.delta.location import LOG, cut_log, list_files
from rivermeet.infra.delta.table_care import Maintained, Retention
from rivermeet.infra.epochs.inputs import pin_table
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.maintenance import maintain, maintain_lines, oldest_needed
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.settings import PROJECT, Settings
from rivermeet.pipelines import Node, limits
from tests.infra.epochs.killed import ROWS, die, joined, world
from tests.world import World

pytestmark = pytest.mark.timeout(900)

KEEN = Retention(versions=1, small_files=0)
"""Takes all that it may."""


@pytest.fixture(scope="module")
def run_often(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> World:
    """Four epochs of a join of two tables, all of them folded as large tables are."""
    target, node = world(tmp_path_factory.mktemp("often") / "world", settings), joined()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "WHOLE_TABLE_ROWS", 0)
        patched.setattr(limits, "DRIVER_FOLD_BYTES", 0)
        target.publish(left(node), [(("p",), ("f",), 1, 0), (("q",), ("g",), 2, 1)])
        for n in range(4):
            target.publish(right(node), [(("f",), (f"F{n}",), n, 0)])
            target.run(node)
    return target


def left(node: Node) -> Node:
    assert node.join_spec is not None
    return node.join_spec.left


def right(node: Node) -> Node:
    assert node.join_spec is not None
    return node.join_spec.right


def later(target: World, root: Path, hours: int, **properties: str) -> World:
    """A copy of a world in which so many hours went by after each commit of a table.

    Its tables have the properties besides. Its checkpoints and checksums are taken away: all commits are there, so that
    they can be stamped again.
    """
    shutil.copytree(target.root, root)
    for log in root.rglob(LOG):
        commits = sorted(log.glob("*.json"))
        ages = {commit: hours * (len(commits) - version) for version, commit in enumerate(commits)}
        for commit, age in ages.items():
            actions = [json.loads(line) for line in commit.read_text().splitlines()]
            for action in (value for one in actions for value in one.values()):
                for name in action.keys() & {"timestamp", "modificationTime", "deletionTimestamp"}:
                    action[name] -= age * 3_600_000
                if "configuration" in action:
                    action["configuration"] |= {f"delta.{name}": value for name, value in properties.items()}
            commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
        for file in filter(Path.is_file, log.parent.rglob("*")):
            if file.parent == log and file not in ages:
                file.unlink()
            else:
                # Files of rows are all as old as the table: VACUUM asks the log when they were done without.
                age = ages.get(file, hours * len(commits)) * 3600
                os.utime(file, (file.stat().st_atime, file.stat().st_mtime - age))
    return replace(target, root=root)


def maintained(target: World, node: Node, keep: Retention = KEEN) -> dict[str, Maintained]:
    done = maintain(target.runner(node.pipeline.name), node.pipeline, lambda: target.fold_session, keep)
    return {one.table: one for one in done}


def lags(target: World, settings: Settings) -> None:
    """The input goes on without the join."""
    for n in range(3):
        target.publish(right(joined()), [(("f",), (f"later {n}",), 10 + n, 0), (("g",), (f"G{n}",), 10 + n, 1)])


def is_killed(target: World, settings: Settings) -> None:
    """A plan is logged and not run, and the input goes on."""
    target.publish(right(joined()), [(("f",), ("planned",), 9, 0)])
    die(target, settings, "join", "planned")
    lags(target, settings)


@pytest.mark.prove
@pytest.mark.parametrize("state", [pytest.param(lags, marks=pytest.mark.prove), is_killed])
def test_what_a_join_needs_stays(
    tmp_path: Path, settings: Settings, run_often: World, state: Callable[[World, Settings], None]
) -> None:
    node = joined()
    undisturbed = later(run_often, tmp_path / "undisturbed", 0)
    state(undisturbed, settings)
    target = later(undisturbed, tmp_path / "maintained", 10)
    paths = target.runner("batch").paths(right(node))
    consumed = last_note(target.runner("batch").paths(node).changelog)
    assert consumed is not None
    pin = pin_table(paths.table, consumed[1].consumed["right"], 1)
    current, pins = last_note(paths.table), _read(target, paths.table, pin[0])
    assert current is not None and pin[0] is not None and 0 < pin[0] < current[0]

    DeltaTable(paths.table, version=2).create_checkpoint()

    done = maintained(target, node)

    # The bound has teeth: of what is older than the pin, files and commits have gone.
    assert {"optimized", "vacuumed", "log cut"} <= set(done["b/table"].did)
    with pytest.raises(Exception, match=r".+"):
        DeltaTable(paths.table, version=0)
    # Notes and pins are found through the commits of maintenance, and the pinned rows are there.
    assert last_note(paths.table) == current
    assert current[0] < DeltaTable(paths.table).version()
    assert pin_table(paths.table, consumed[1].consumed["right"], 1) == pin
    assert _read(target, paths.table, pin[0]) == pins
    for one in (target, undisturbed):
        while one.run(node) is not None:
            pass
    assert target.rows(node) == undisturbed.rows(node)
    assert target.rows(node, "table") == undisturbed.rows(node, "table")


def _read(target: World, path: str, version: int | None) -> list[str]:
    return sorted(map(repr, read(target.spark, path, version).collect()))


@pytest.mark.prove
def test_an_open_plan_may_pin_less_than_its_join_has_consumed(tmp_path: Path, run_often: World) -> None:
    """Of a plan that was made while the table was behind its changelog."""
    target, node = later(run_often, tmp_path / "world", 0), joined()
    runner = target.runner("batch")
    path = runner.paths(right(node)).table
    assert oldest_needed(runner, right(node), path, 1) == 3
    plan = EpochPlan.model_validate_json(runner.log.lines("ab", "plan")[4])
    behind = plan.inputs["right"].model_copy(update={"table_version": 1})
    plan = plan.model_copy(update={"epoch": 5, "inputs": {**plan.inputs, "right": behind}})
    runner.log.write("ab", 1, 5, "plan", plan.model_dump_json())
    assert oldest_needed(runner, right(node), path, 1) == 1


@pytest.mark.prove
def test_a_join_that_never_ran_may_need_all(tmp_path: Path, run_often: World) -> None:
    target, node = later(run_often, tmp_path / "world", 10), joined()
    left(node).left_join(right(node), "never", foreign_key="v", select=ROWS)  # pyright: ignore
    done = maintained(target, node)
    assert not {"vacuumed", "log cut"} & {what for name in ("a", "b") for what in done[f"{name}/table"].did}
    assert "vacuumed" in done["ab/table"].did
    assert set(maintained(target, joined())["b/table"].did) & {"vacuumed", "log cut"}


@pytest.mark.prove
def test_the_newest_note_outlives_the_retention_of_the_log(tmp_path: Path, run_often: World) -> None:
    """Delta cleans its log as it writes a checkpoint, by age alone, and a checkpoint has no notes."""
    target, node = later(run_often, tmp_path / "world", 24 * 100, checkpointInterval="1"), joined()
    paths = [target.runner("batch").paths(one) for one in node.pipeline.stored]
    tables = [path for one in paths for path in (one.changelog, one.table)]
    before = {path: last_note(path) for path in tables}
    assert None not in before.values()
    done = maintained(target, node)
    assert all("optimized" in done[f"{name}/table"].did for name in ("b", "ab"))
    assert {path: last_note(path) for path in tables} == before
    assert target.run(node) is None
    target.publish(right(node), [(("f",), ("after all that time",), 20, 0)])
    result = target.run(node)
    assert result is not None and result.plan.epoch == 5
    assert [row["r"] for row in target.rows(node, "table") if row["k"] == "p"] == ["after all that time"]


@pytest.mark.prove
def test_rows_past_their_retention_go(tmp_path: Path, run_often: World) -> None:
    target, node = later(run_often, tmp_path / "world", 0), joined()
    paths = target.runner("batch").paths(node)

    def epochs(path: str) -> list[int]:
        return sorted(DeltaTable(path).to_pyarrow_table()["epoch"].to_pylist())

    for name in ("memory", "late", "dead_letter"):
        for epoch in range(1, 5):
            rows = pa.table({"id": [0, 1], "epoch": [epoch, epoch]})
            # As of a home whose side tables were append-only still.
            write_deltalake(getattr(paths, name), rows, mode="append", configuration={"delta.appendOnly": "true"})
    maintained(target, node, Retention())
    assert epochs(paths.memory) == [4, 4]
    assert epochs(paths.late) == epochs(paths.dead_letter) == [1, 1, 2, 2, 3, 3, 4, 4]
    maintained(target, node, Retention(late=1, dead_letter=3, measured=2))
    assert epochs(paths.late) == [4, 4]
    assert epochs(paths.dead_letter) == [2, 2, 3, 3, 4, 4]
    log = target.runner("batch").log
    assert list(log.lines("ab", "measured")) == [3, 4]
    assert list(log.lines("ab", "plan")) == [1, 2, 3, 4]


@pytest.mark.prove
def test_killed_between_optimize_and_vacuum(tmp_path: Path, settings: Settings, run_often: World) -> None:
    target, node = later(run_often, tmp_path / "world", 10), joined()
    env = os.environ | settings.environ() | {crash.SETTING: "maintained:b"}
    command = [sys.executable, "-m", "tests.infra.delta.test_maintenance", str(target.root)]
    killed = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert maintained(target, node)["b/table"].did
    assert target.rows(node) == run_often.rows(node)
    assert target.rows(node, "table") == run_often.rows(node, "table")
    assert target.run(node) is None


@pytest.mark.prove
def test_a_run_goes_first(tmp_path: Path, run_often: World) -> None:
    target, node = later(run_often, tmp_path / "world", 10), joined()
    path = target.runner("batch").paths(left(node)).changelog
    waits = Thread(target=maintained, args=(target, node))
    with target.runner("batch").lock(left(node)).hold():
        before = DeltaTable(path).version()
        waits.start()
        waits.join(3)
        assert waits.is_alive() and DeltaTable(path).version() == before
    waits.join(300)
    assert not waits.is_alive() and DeltaTable(path).version() > before


@pytest.mark.prove
def test_lines_stay_in_fewer_files(tmp_path: Path) -> None:
    log = EpochLog(str(tmp_path / "log"), str(tmp_path / "lock"))
    for epoch in range(1, 301):
        log.write("n", 1, epoch, "measured", f"line {epoch}")
    (done,) = maintain_lines(log.path, "epoch log", Retention(versions=20))
    assert (done.live, done.files[0]) == (1, len(log.lines("n", "measured")) * 2 + 4)
    assert {"optimized", "log cut"} <= set(done.did)
    assert log.lines("n", "measured") == {epoch: f"line {epoch}" for epoch in range(1, 301)}
    # What was written is not written again, though the commits that say so are gone.
    log.write("n", 1, 300, "measured", "again")
    assert log.lines("n", "measured", 299) == {300: "line 300"}


def test_the_log_is_cut_at_a_checkpoint_alone(tmp_path: Path) -> None:
    path, schema = str(tmp_path / "lines"), pa.schema([("n", pa.int64())])
    for n in range(10):
        append_lines([{"n": n}], schema, path, "lines", n)
        if n in (3, 6):
            DeltaTable(path).create_checkpoint()
    assert cut_log(path, list_files(path), 2) == 0
    assert cut_log(path, list_files(path), 5) == 3
    for version in range(3, 10):
        assert DeltaTable(path, version=version).to_pyarrow_table().num_rows == version + 1
    with pytest.raises(Exception, match=r".+"):
        DeltaTable(path, version=2)
    assert list(notes(path)) == []
    table = open_table(path)
    assert table is not None and len(table.history()) == 7


if __name__ == "__main__":
    maintained(world(Path(sys.argv[1]), Settings.from_env()), joined())
