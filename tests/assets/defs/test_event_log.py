"""Events of Dagster in files that a run keeps open: the same events as in Dagster's own storage, and none lost.

a run of 1 check, of 21 checks     the same number of connections
killed among its planned events    none of them is stored, and the next run starts
killed between two verdicts        all verdicts before are stored
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy
from dagster._core.storage.event_log import EventLogStorage, SqliteEventLogStorage
from sqlalchemy import event, pool

from rivermeet.assets.defs.event_log import EventLog
from rivermeet.assets.defs.runs import QUIET, prepare_instance
from rivermeet.infra.settings import PROJECT, Settings

pytestmark = pytest.mark.slow

SHELF, READY = dg.AssetKey("shelf"), "ready"


def shelf(checks: int, kill_after: int | None = None) -> dg.AssetsDefinition:
    """An asset with checks, whose process is killed when it has given so many verdicts."""

    @dg.multi_asset(
        name="shelf",
        specs=[dg.AssetSpec(SHELF)],
        check_specs=[dg.AssetCheckSpec(f"check_{n}", asset=SHELF) for n in range(checks)],
    )
    def fill() -> Iterator[Any]:
        yield dg.MaterializeResult(SHELF, metadata={"rows": 7}, data_version=dg.DataVersion("3"))
        for n in range(checks):
            if n == kill_after:
                os.kill(os.getpid(), signal.SIGKILL)
            yield dg.AssetCheckResult(asset_key=SHELF, check_name=f"check_{n}", passed=n != 1)

    return fill


def run(instance: dg.DagsterInstance, *given: int) -> str:
    result = dg.materialize([shelf(*given)], instance=instance, run_config=QUIET, raise_on_error=False)
    return result.run_id


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    for name in ("DAGSTER_HOME", "DAGSTER_EVENT_BATCH_SIZE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    prepare_instance(Settings(tmp_path, str(tmp_path), str(tmp_path)))
    with dg.DagsterInstance.get() as made:
        yield made


def types(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    logged = instance.all_logs(run_id)
    return [entry.dagster_event_type.value for entry in logged if entry.dagster_event_type is not None]


def verdicts(storage: EventLogStorage) -> list[tuple[str, str, str]]:
    """What Dagster's page of a check shows: its run, its name and its state, newest first."""
    found = []
    for n in range(3):
        key = dg.AssetCheckKey(SHELF, f"check_{n}")
        found += [(r.run_id, key.name, r.status.value) for r in storage.get_asset_check_execution_history(key, limit=9)]
    return found


def test_the_home_has_this_storage_and_batches(instance: dg.DagsterInstance) -> None:
    assert isinstance(instance.event_log_storage, EventLog)
    assert int(os.environ["DAGSTER_EVENT_BATCH_SIZE"]) >= 1000


def test_a_run_opens_no_connection_for_an_event(instance: dg.DagsterInstance) -> None:
    opened: list[str] = []

    def note(connection: Any, record: Any) -> None:
        (_, _, file) = connection.execute("PRAGMA database_list").fetchone()
        opened.append(Path(file).name)

    event.listen(pool.Pool, "connect", note)
    try:
        counted = []
        for checks in (1, 1, 21):
            opened.clear()
            name = f"{run(instance, checks)}.db"
            counted.append((opened.count(name), opened.count("index.db")))
    finally:
        event.remove(pool.Pool, "connect", note)
    # The first run of a process finds out what tables there are.
    assert counted[1] == counted[2]
    storage = instance.event_log_storage
    assert isinstance(storage, EventLog) and not storage._open, "all are closed with the run"
    assert not list(Path(instance.root_directory, "history", "runs").glob("*-wal"))


def test_events_and_verdicts_are_those_of_dagsters_own_storage(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    own = SqliteEventLogStorage(str(tmp_path / "dagster" / "history" / "runs"))
    (tmp_path / "other").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "other")) as other:
        there = run(other, 3)
        expected, states = types(other, there), [state for _, _, state in verdicts(other.event_log_storage)]
        assert type(other.event_log_storage) is SqliteEventLogStorage
    runs = [run(instance, 3), run(instance, 3)]
    assert [types(instance, one) for one in runs] == [expected, expected]
    assert states == ["SUCCEEDED", "FAILED", "SUCCEEDED"]
    assert verdicts(own) == [(one, f"check_{n}", states[n]) for n in range(3) for one in reversed(runs)], (
        "and Dagster's own reads what ours has written"
    )
    newest = instance.get_latest_materialization_event(SHELF)
    assert newest is not None and newest.run_id == runs[1]
    record = instance.get_run_record_by_id(runs[1])
    assert record is not None and record.dagster_run.status is dg.DagsterRunStatus.SUCCESS


def test_a_history_of_dagsters_own_storage_goes_on(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    home = tmp_path / "dagster"
    (home / "dagster.yaml").unlink()
    with dg.DagsterInstance.get() as before:
        assert not isinstance(before.event_log_storage, EventLog)
        first = run(before, 3)
    prepare_instance(Settings(tmp_path, str(tmp_path), str(tmp_path)))
    with dg.DagsterInstance.get() as after:
        second = run(after, 3)
        assert [one for one, name, _ in verdicts(after.event_log_storage) if name == "check_0"] == [second, first]


def test_a_batch_that_fails_is_stored_one_by_one_and_no_event_twice(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = SqliteEventLogStorage.store_event
    left = [3]

    def store(self: SqliteEventLogStorage, entry: dg.EventLogEntry) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError("just once")
        stored(self, entry)

    monkeypatch.setattr(SqliteEventLogStorage, "store_event", store)
    found = types(instance, run(instance, 3))
    assert left[0] < 0
    assert found.count("ASSET_CHECK_EVALUATION_PLANNED") == 3 and found.count("ASSET_MATERIALIZATION_PLANNED") == 1
    assert len(verdicts(instance.event_log_storage)) == 3


def test_what_watches_a_run_sees_its_events_while_it_is_on(instance: dg.DagsterInstance) -> None:
    """Dagster's page shows the log of a run that way."""
    seen: list[str] = []

    @dg.asset
    def slow(context: dg.AssetExecutionContext) -> None:
        with dg.DagsterInstance.get() as page:
            page.watch_event_logs(context.run.run_id, None, lambda entry, cursor: seen.append(entry.user_message))
            context.log.info(READY)
            ends = time.monotonic() + 20
            while READY not in seen and time.monotonic() < ends:
                time.sleep(0.05)

    assert dg.materialize([slow], instance=instance, run_config=QUIET).success
    assert READY in seen


KILLED = """
import os, signal, sys
import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage
from tests.assets.defs.test_event_log import run

stored, left = SqliteEventLogStorage.store_event, int(sys.argv[1])

def store(self, event):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    stored(self, event)

SqliteEventLogStorage.store_event = store
with dg.DagsterInstance.get() as instance:
    run(instance, 5, *map(int, sys.argv[2:]))
"""


def killed(*arguments: int) -> None:
    """A run of five checks, killed before it stores an event, or between two verdicts."""
    given = [sys.executable, "-c", KILLED, *map(str, arguments)]
    ended = subprocess.run(given, cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def shards(home: Path) -> Sequence[Path]:
    return [file for file in (home / "history" / "runs").glob("*.db") if file.name != "index.db"]


def test_a_run_killed_among_its_planned_events_has_none_of_them(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    killed(4)  # six are planned: the asset and five checks
    (left,) = shards(tmp_path / "dagster")
    assert types(instance, left.stem) == []
    assert verdicts(instance.event_log_storage) == []
    run_id = run(instance, 3)
    assert [one for one, _, _ in verdicts(instance.event_log_storage)] == [run_id] * 3


def test_a_killed_run_has_all_verdicts_that_were_given(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    killed(0, 3)
    (left,) = shards(tmp_path / "dagster")
    assert types(instance, left.stem).count("ASSET_CHECK_EVALUATION") == 3
    assert [state for _, _, state in verdicts(instance.event_log_storage)] == ["SUCCEEDED", "FAILED", "SUCCEEDED"]
    for file in (left, left.with_name("index.db")):
        engine = sqlalchemy.create_engine(f"sqlite:///{file}", poolclass=sqlalchemy.NullPool)
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
