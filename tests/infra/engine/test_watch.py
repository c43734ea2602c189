"""A client of an engine that has ended, does not answer, or is full; and what a dead client leaves in the engine."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import psutil
import pytest
from pyspark.sql.connect.client.retries import Retrying
from pyspark.sql.connect.proto.base_pb2 import ReleaseSessionRequest
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

from rivermeet.infra.engine import conf as spark_conf
from rivermeet.infra.engine import warm as engine
from rivermeet.infra.engine.channel import OnceInVain
from rivermeet.infra.engine.files import EngineFiles, EngineState
from rivermeet.infra.engine.heap import Heap, HeapMeter
from rivermeet.infra.engine.processes import Apart
from rivermeet.infra.engine.server import _is_spent
from rivermeet.infra.engine.watch import answers
from rivermeet.infra.settings import Settings
from tests.reliability import handled

ENGINE_MEMORY = "600m"
# N frames that are kept, a query that never ends, and what the process says of its failure. The query is one task:
# with one for each core, no other client of the engine would be given a turn.
CLIENT = """
import sys, time
from rivermeet.infra.engine import session, watch
from rivermeet.infra.engine.session import explain_loss, new_session
from rivermeet.infra.settings import Settings
watch.LOOK_SECONDS, watch.SAY_AFTER, watch.GIVE_UP_AFTER = 0.5, 1.0, float(sys.argv[2])
spark = session.session(Settings.from_env())
other = new_session(spark)
other.range(1).collect()
kept = [one.range(n).localCheckpoint(eager=False) for n in range(int(sys.argv[1])) for one in (spark, other)]
print("kept", flush=True)
try:
    if sys.argv[3] == "query":
        spark.range(0, 10**15, 1, 1).selectExpr("sum(id % 7)").collect()
    else:
        time.sleep(600)
except KeyboardInterrupt:
    pass
except Exception as error:
    print(explain_loss(error), flush=True)
"""


Client = Callable[[int, float, str], subprocess.Popen[str]]


@pytest.fixture
def client(own: Settings) -> Iterator[Client]:
    """Starts processes that have kept frames, and ends them: a query left behind takes the engine's every core."""
    with ExitStack() as started:

        def start(frames: int, give_up: float, what: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-W", "ignore", "-c", CLIENT, str(frames), str(give_up), what]
            env = os.environ | own.environ()
            pipe = subprocess.PIPE
            process = started.enter_context(subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True))
            started.callback(process.kill)
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 300)[0], "it has kept nothing"
            assert process.stdout.readline() == "kept\n", process.communicate(timeout=60)
            return process

        yield start


def wait_until(true: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


@contextmanager
def suspended(warm: EngineState) -> Iterator[None]:
    """While none of its threads runs: a busy JVM answered for another 0.14 s after the signal."""
    for process in warm.processes():
        process.suspend()
    try:
        wait_until(lambda: all(map(is_stopped, warm.processes())))
        yield
    finally:
        for process in warm.processes():
            process.resume()


def is_stopped(process: psutil.Process) -> bool:
    return all(psutil.Process(thread.id).status() == psutil.STATUS_STOPPED for thread in process.threads())


# --- without an engine


@pytest.mark.parametrize("clock", [-86_400.0, 3_600.0])
def test_a_clock_that_is_set_loses_no_process(clock: float, monkeypatch: pytest.MonkeyPatch) -> None:
    known, of_before = Apart.of(os.getpid()), Apart(os.getpid(), psutil.Process().create_time())
    assert known.find() is not None and of_before.find() is not None
    boot = psutil._pslinux.boot_time()  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot + clock)
    assert known.find() is not None
    assert Apart(known.pid, known.created - 60).find() is None
    handled("engine", "the clock is set while it runs", "it stays the engine of its home")


class Bean:
    """A collector, or a pool of memory, as Py4J shows it."""

    def __init__(self, name: str = "") -> None:
        self.name, self.spent, self.used = name, 0.0, 0

    def getCollectionTime(self) -> float:
        return self.spent * 1000

    def getName(self) -> str:
        return self.name

    def getCollectionUsage(self) -> Bean:
        return self

    def getUsed(self) -> int:
        return self.used

    def getMax(self) -> int:
        return 100


class Jvm:
    """Just enough of one for its heap to be measured."""

    def __init__(self) -> None:
        self.young, self.full, self.old = Bean(), Bean(), Bean("PS Old Gen")
        self.java = self.lang = self.management = self.ManagementFactory = self

    def getGarbageCollectorMXBeans(self) -> list[Bean]:
        return [self.young, self.full]

    def getMemoryPoolMXBeans(self) -> list[Bean]:
        return [Bean("PS Eden Space"), self.old]


def test_the_share_of_the_last_minute_that_went_into_collecting() -> None:
    jvm, now = Jvm(), [0.0]
    meter = HeapMeter(jvm, lambda: now[0])

    def after(seconds: float, young: float = 0.0, full: float = 0.0) -> Heap:
        now[0] += seconds
        jvm.young.spent += young
        jvm.full.spent += full
        return meter.measure()

    assert after(0) == Heap(0.0, 0.0)
    # 10 s of 10 s are not yet a minute's half.
    assert not after(10, full=10).is_full
    assert after(30, full=25, young=1).is_full
    jvm.old.used = 97
    full = after(20, full=20)
    assert full.is_full and full.unfreed == 0.97
    assert full.sentence.startswith("spent 93% of the last minute collecting garbage, and 97% of its old generation")
    assert "RIVERMEET_ENGINE_MEMORY" in full.sentence and "`rivermeet engine stop`" in full.sentence
    # A minute later it works again.
    assert not after(60, young=1).is_full


def test_another_s_engine_that_is_gone_is_asked_in_vain_once() -> None:
    """Each of the frames that were kept there would ask for ten minutes when it is given up."""
    waited: list[float] = []
    policy, asked = OnceInVain(), 0
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with grpc.insecure_channel(f"127.0.0.1:{nobody.getsockname()[1]}") as channel:
            release = SparkConnectServiceStub(channel).ReleaseSession
            for _ in range(3):
                with pytest.raises(grpc.RpcError):
                    for attempt in Retrying([policy], sleep=waited.append):
                        with attempt:
                            asked += 1
                            release(ReleaseSessionRequest())
    assert 600 < sum(waited) < 800 and asked == 16 + 2
    handled("engine", "a Spark Connect endpoint of others is gone", "a process that kept frames asks it in vain once")


def test_a_dead_client_is_found_once_with_its_sessions(tmp_path: Path) -> None:
    files = EngineFiles(tmp_path)
    alive, dead = files.client(), files.client()
    for name in ("a", "b"):
        dead.note(name)
    alive.note("c")
    dead.let_go()
    assert files.take_dead_clients() == ["a", "b"]
    assert files.take_dead_clients() == []
    alive.remove()
    assert files.take_dead_clients() == [] and not list((tmp_path / "clients").iterdir())


def test_a_full_engine_that_nobody_uses_any_more_is_given_up(tmp_path: Path) -> None:
    files = EngineFiles(tmp_path)
    os.close(files.lease())
    full, unfreed, fine = Heap(0.93, 0.5), Heap(0.1, 0.97), Heap(0.4, 0.8)
    for heap in (full, unfreed):
        files.write_heap(heap)
        assert not _is_spent(files), "its last client has only just gone"
    long_ago = time.time() - 60
    os.utime(tmp_path / "lease.lock", (long_ago, long_ago))
    for heap, spent in ((full, True), (unfreed, True), (fine, False)):
        files.write_heap(heap)
        assert _is_spent(files) is spent
    handled(
        "engine",
        "its heap is full: it collects more than it works",
        "the run and `rivermeet engine status` say so, and the engine ends once nobody uses it",
    )


@pytest.mark.parametrize("memory", ["512m", "900m"])
def test_a_heap_below_a_gigabyte_can_be_had(memory: str, tmp_path: Path) -> None:
    settings = Settings.from_env({"RIVERMEET_HOME": str(tmp_path), "RIVERMEET_ENGINE_MEMORY": memory})
    assert f" -Xms{memory} " in spark_conf.server(settings, [])["spark.driver.extraJavaOptions"]


# --- with one: each JVM is cold, and small


@pytest.mark.slow
def test_a_client_that_was_killed_leaves_nothing_in_the_engine(
    own: Settings, warm: EngineState, client: Client
) -> None:
    """Its sessions are closed, with what they compute; another client's are not."""
    killed, other = client(3, 60, "query"), client(3, 60, "sleep")
    sessions = EngineFiles(own.engine_home).folder / "clients"
    wait_until(lambda: len(list(sessions.glob("[0-9]*"))) == 2)
    (file,) = sessions.glob(f"{killed.pid}-*")
    assert len(file.read_text().split()) == 2
    killed.kill()
    killed.communicate(timeout=60)
    wait_until(lambda: not file.exists())
    wait_until(lambda: psutil.Process(warm.jvm_pid).cpu_percent(1) < 50)
    assert len(list(sessions.glob("[0-9]*"))) == 1
    other.send_signal(signal.SIGINT)
    _, err = other.communicate(timeout=60)
    assert other.returncode == 0, err
    assert not list(sessions.glob("[0-9]*"))
    handled(
        "engine", "a client that was killed", "its sessions are closed in the engine, with its queries and kept frames"
    )


@pytest.mark.slow
def test_a_client_of_an_engine_that_does_not_answer_says_so_and_ends(
    own: Settings, warm: EngineState, client: Client
) -> None:
    assert answers(warm, EngineFiles(own.engine_home).token(), 10)
    waiting = client(20, 4, "query")
    with suspended(warm):
        began = time.monotonic()
        assert not answers(warm, EngineFiles(own.engine_home).token(), 1)
        out, err = waiting.communicate(timeout=90)
        assert waiting.returncode == 0, err
        assert time.monotonic() - began < 45
        assert f"rivermeet: the engine (pid {warm.pid}) has not answered for 1 s; `rivermeet engine status`" in err
        assert out.startswith(f"the engine (pid {warm.pid}) has not answered for 4 s (log: ")
        assert "end it with `rivermeet engine stop` and run again" in out
        status = engine.status(own)
        assert status.state == warm and not status.answers
        assert engine.stop(own), "and what the message says can be done"
    handled(
        "engine",
        "it does not answer (stopped, or its heap is full)",
        "a run says so after 30 s, and fails after 5 min with its pid and the command that ends it",
    )


@pytest.mark.prove
@pytest.mark.slow
def test_a_client_of_an_engine_that_is_stopped_for_a_while_waits(
    own: Settings, warm: EngineState, client: Client
) -> None:
    """As a laptop that sleeps."""
    waiting = client(2, 60, "query")
    with suspended(warm):
        time.sleep(4)
    time.sleep(3)
    assert waiting.poll() is None and engine.status(own).answers
    waiting.kill()
    _, err = waiting.communicate(timeout=60)
    assert "has not answered for" in err


@pytest.mark.slow
@pytest.mark.parametrize("end", ["killed", pytest.param("stopped", marks=pytest.mark.prove)])
def test_a_client_of_an_engine_that_is_gone_ends_in_seconds(
    own: Settings, warm: EngineState, client: Client, end: str
) -> None:
    """Whatever it has kept: 4.5 s of asking for each of two hundred frames were fifteen minutes."""
    waiting = client(100, 60, "query")
    if end == "killed":
        psutil.Process(warm.jvm_pid).kill()
    else:
        engine.stop(own)
    began = time.monotonic()
    out, err = waiting.communicate(timeout=120)
    assert waiting.returncode == 0, err
    assert time.monotonic() - began < 20
    assert out.startswith(f"the engine (pid {warm.pid}) has ended: it was stopped, killed, or ran out of memory (log: ")
    assert out.endswith("What was not committed, the next run does again: run again\n")
    handled(
        "engine",
        "it is killed, or stopped, in the middle of a run",
        "the run fails at once and says so, and its process ends within seconds, whatever it has kept",
    )
