"""Leases on S3: one holder at a time, taken over when it is silent, and no commit of one that was replaced."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import obstore
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from obstore.store import from_url

from rivermeet.infra.delta.fence import LeaseLostError, fence_of, raise_fence, refuse_fenced
from rivermeet.infra.delta.lines import append_lines, open_table
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.node_lock import NAME, Lease, NodeLock, identity
from rivermeet.infra.settings import PROJECT
from rivermeet.pipelines.extras import ExtraMissingError
from tests.reliability import handled

TERM = 30.0


@dataclass
class Clock:
    """Time that passes while someone sleeps, and things that happen meanwhile."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        self.meanwhile()


def lease(url: str, home: str, clock: Clock | None = None) -> Lease:
    clock = clock or Clock()
    return Lease(url, TERM, home, clock, clock.sleep)


def never(token: int) -> None:
    raise AssertionError("it was given back")


def test_a_lease_that_was_given_back_is_taken_without_waiting(s3: str) -> None:
    clock = Clock()
    for token in (1, 2, 3):
        one = lease(s3, f"home {token}", clock)
        one.take(never)
        assert one.confirm() == token
        one.give_back()
    assert clock.slept == []


def test_without_obstore_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("obstore", *(name for name in sys.modules if name.startswith("obstore."))):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ExtraMissingError, match=r"pip install 'rivermeet\[s3\]'"):
        lease("s3://lake/node", "home").take()


def test_a_silent_holder_is_replaced_after_a_term(s3: str) -> None:
    first, second = lease(s3, "one"), lease(s3, "other", clock := Clock())
    first.take()
    taken: list[int] = []
    second.take(taken.append)
    assert (taken, second.confirm()) == ([2], 2)
    assert TERM <= clock.now < TERM + 2
    with pytest.raises(LeaseLostError, match=r"another run has taken over.*RIVERMEET_LEASE_SECONDS"):
        first.confirm()
    first.renew()
    first.give_back()
    assert second.confirm() == 2, "the first one gives back only what it has"


def test_a_holder_that_renews_is_waited_for(s3: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, clock = lease(s3, "one"), Clock()
    first.take()

    def meanwhile() -> None:
        if clock.now < 10 * TERM:
            first.renew()
        elif clock.now < 10 * TERM + 1:
            first.give_back()

    clock.meanwhile = meanwhile
    second = lease(s3, "other", clock)
    second.take(never)
    assert 10 * TERM <= clock.now <= 10 * TERM + 2
    assert capsys.readouterr().err == (
        f"rivermeet: a run on {socket.gethostname()} (process {os.getpid()}) holds the lease of {s3}; waiting until it "
        f"ends, or for 30 s in which it does not renew the lease. Whose it is stands in {s3}/_lease.json\n"
    )
    handled(
        "runs",
        "tables at a URL that another machine's run holds",
        "the wait says for what, for how long at most, and where to see whose they are",
    )


def test_a_holder_counts_its_term_itself(s3: str) -> None:
    """Where the store does not answer, it gives up by itself."""
    one = lease(s3, "one", clock := Clock())
    one.take()
    clock.now += TERM - 1
    assert one.confirm() == 1
    clock.now += 1
    with pytest.raises(LeaseLostError):
        one.confirm()


def test_a_dead_run_of_the_same_home_is_not_waited_for(s3: str) -> None:
    lease(s3, "here").take()
    taken: list[int] = []
    again = lease(s3, "here", clock := Clock())
    again.take(taken.append)
    assert (taken, clock.slept) == ([2], [])


def test_our_own_put_that_comes_back_as_a_conflict_is_ours(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer was lost, and the put was sent again."""
    put = obstore.put

    def twice(*given: Any, **named: Any) -> Any:
        put(*given, **named)
        return put(*given, **named)

    monkeypatch.setattr(obstore, "put", twice)
    one = lease(s3, "one")
    one.take(never)
    one.renew()
    assert one.confirm() == 1


def test_of_many_that_want_it_one_has_it_at_a_time(s3: str) -> None:
    inside: list[str] = []
    most: list[int] = []

    def hold(name: str) -> int:
        one = Lease(s3, TERM, name, sleep=lambda seconds: time.sleep(0.01))
        one.take(never)
        inside.append(name)
        most.append(len(inside))
        time.sleep(0.02)
        inside.remove(name)
        one.give_back()
        return one.token

    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(hold, [f"home {n}" for n in range(16)]))
    assert sorted(tokens) == list(range(1, 17))
    assert set(most) == {1}


def committed(path: str, epoch: int, token: int | None, table: DeltaTable | None = None) -> None:
    """An epoch's commit as `infra.delta.staged.commit_staged` makes it: on top of what it looked at."""
    there = table or (DeltaTable(path) if open_table(path) is not None else None)
    if there is not None:
        refuse_fenced(there, token)
    write_deltalake(
        there or path,
        pa.table({"epoch": [epoch]}),
        mode="append",
        commit_properties=CommitProperties(max_commit_retries=0, app_transactions=[Transaction("epochs", epoch)]),
    )


def refused_by_spark(path: str, properties: dict[str, str]) -> None:
    raise AssertionError("delta-rs alters this table")


def test_behind_the_fence_nothing_is_committed(s3: str) -> None:
    path = f"{s3}/shop/orders/changelog"
    committed(path, 1, token=1)
    looked_before = DeltaTable(path)
    raise_fence(path, 2, refused_by_spark)
    assert fence_of(DeltaTable(path)) == 2
    with pytest.raises(LeaseLostError):
        committed(path, 2, token=1)
    with pytest.raises(Exception, match=r"(?i)conflict|metadata|version|transaction"):
        committed(path, 2, 1, looked_before)
    committed(path, 2, token=2)
    assert DeltaTable(path).to_pyarrow_table()["epoch"].to_pylist() == [2, 1]
    raise_fence(path, 2, refused_by_spark)
    assert DeltaTable(path).version() == 2, "one fence is enough"


@pytest.mark.parametrize("round_", range(10))
def test_a_fence_and_a_commit_that_are_raced(s3: str, round_: int) -> None:
    """The commit is before the fence, where who raises it then finds it, or there is none."""
    path = f"{s3}/t"
    committed(path, 1, token=1)
    looked, outcome = DeltaTable(path), list[str]()

    def commit() -> None:
        try:
            committed(path, 2, 1, looked)
            outcome.append("committed")
        except Exception:
            outcome.append("refused")

    other = Thread(target=commit)
    other.start()
    raise_fence(path, 2, refused_by_spark)
    seen = DeltaTable(path).to_pyarrow_table()["epoch"].to_pylist()
    other.join()
    assert sorted(DeltaTable(path).to_pyarrow_table()["epoch"].to_pylist()) == sorted(seen)
    assert (2 in seen) == (outcome == ["committed"])


def work(url: str, folder: str, path: str) -> None:
    """A run: takes the lock, looks, computes for a long time, commits."""
    lock = node_lock(url, Path(folder), path)
    with lock.hold():
        table = DeltaTable(path)
        print("computing", flush=True)
        time.sleep(1)
        try:
            committed(path, 2, lock.confirm(), table)
            print("committed", flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)


def node_lock(url: str, folder: Path, path: str) -> NodeLock:
    def taken_over(token: int) -> None:
        raise_fence(path, token, refused_by_spark)

    return NodeLock(folder / "node", lambda: Lease(url, 2.0, identity(folder)), taken_over)


def test_a_process_that_was_stopped_commits_nothing_when_it_wakes(s3: str, tmp_path: Path) -> None:
    path = f"{s3}/changelog"
    committed(path, 1, token=1)
    command = [sys.executable, "-m", "tests.infra.epochs.test_lease", s3, str(tmp_path / "one"), path]
    stopped = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert stopped.stdout is not None
    try:
        assert stopped.stdout.readline() == "computing\n"
        stopped.send_signal(signal.SIGSTOP)
        with node_lock(s3, tmp_path / "other", path).hold():
            stopped.send_signal(signal.SIGCONT)
            assert stopped.stdout.readline() == "LeaseLostError\n"
            assert DeltaTable(path).to_pyarrow_table()["epoch"].to_pylist() == [1]
            committed(path, 2, 2)
    finally:
        stopped.kill()
        stopped.wait()
    assert DeltaTable(path).to_pyarrow_table()["epoch"].to_pylist() == [2, 1]


def test_a_lock_renews_its_lease_while_it_is_held(s3: str, tmp_path: Path) -> None:
    other = Lease(s3, 2.0, "elsewhere")
    with node_lock(s3, tmp_path, f"{s3}/t").hold():
        waiting = Thread(target=other.take)
        waiting.start()
        time.sleep(5)
        assert waiting.is_alive(), "twice its term"
    waiting.join(10)
    assert other.confirm() == 2


def test_a_lock_that_ended_leaves_nothing_but_the_lease(s3: str, tmp_path: Path) -> None:
    lock = node_lock(s3, tmp_path, f"{s3}/t")
    with pytest.raises(ValueError, match="as it was raised"), lock.hold():
        raise ValueError("as it was raised")
    assert lock.confirm() is None
    names = [found["path"] for found in obstore.list(from_url(s3)).collect()]
    assert names == [NAME]


def test_of_plans_that_machines_log_at_once_one_stands(s3: str, tmp_path: Path) -> None:
    """Each has a lock of its own; the first line makes the table."""
    go, path = Event(), f"{s3}/_epochs/shop"

    def plan(n: int) -> None:
        log = EpochLog(path, str(tmp_path / f"{n}.lock"))
        go.wait()
        for epoch in (1, 2, 3):
            log.write("orders", 1, epoch, "plan", f"of {n}")

    with ThreadPoolExecutor(4) as pool:
        for written in [pool.submit(plan, n) for n in range(4) if go.set() is None]:
            written.result()
    lines = EpochLog(path, str(tmp_path / "lock")).bodies("orders", "plan")
    assert [epoch for epoch, _ in lines] == [1, 2, 3]


@pytest.mark.prove
def test_lines_of_many_machines_are_all_there(s3: str) -> None:
    schema = pa.schema([("n", pa.int64())])

    def write(n: int) -> None:
        append_lines([{"n": n}], schema, f"{s3}/_quality", f"app {n}", 1)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(18)))
    assert sorted(DeltaTable(f"{s3}/_quality").to_pyarrow_table()["n"].to_pylist()) == list(range(18))


if __name__ == "__main__":
    work(*sys.argv[1:])
