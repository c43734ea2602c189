"""Spark's log store against another client: of two that make a version, one does, and knows it.

No Spark runs here: the class is called by a Java program of thirty lines, the other side puts as delta-rs does.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import sleep

import obstore
import pyspark
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import from_url

from rivermeet.infra.engine import conf
from rivermeet.infra.engine.jars import jars, s3_classes_jar
from rivermeet.infra.engine.java import JavaError, find_java
from rivermeet.infra.settings import Settings
from tests.faulty_s3 import between, faults

RACES = 100
HADOOP = "spark.hadoop."


class Racer:
    """The Java side."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self.said() == "ready"

    def write(self, path: str, text: str, overwrite: bool = False) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{path} {text}{' overwrite' if overwrite else ''}\n")
        self._process.stdin.flush()
        return self.said()

    def said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def racing(settings: Settings) -> Iterator[Racer]:
    given = {k.removeprefix(HADOOP): v for k, v in conf.s3(settings).items() if k.startswith(HADOOP)}
    classpath = os.pathsep.join([f"{Path(pyspark.__file__).parent / 'jars'}/*", *map(str, jars(settings))])
    source = Path(__file__).with_name("LogStoreRacer.java")
    command = [str(find_java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath, str(source)]
    command += [f"{name}={value}" for name, value in given.items()]
    process = subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield Racer(process)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def racer(s3: str, tmp_path: Path) -> Iterator[Racer]:
    settings = Settings.from_env({**os.environ, "RIVERMEET_HOME": str(tmp_path), "RIVERMEET_TABLES": s3})
    with racing(settings) as started:
        yield started


@pytest.mark.prove
def test_of_two_that_make_a_version_one_does(s3: str, racer: Racer) -> None:
    store, theirs = from_url(s3), dict[int, str]()

    def put(n: int) -> None:
        # Ours looks first and takes longer: begun at once, theirs may be ahead in all races.
        sleep(n % 10 * 0.003)
        try:
            obstore.put(store, f"t/_delta_log/{n:020}.json", b"theirs\n", mode="create")
            theirs[n] = "won"
        except AlreadyExistsError:
            theirs[n] = "lost"

    ours: dict[int, str] = {}
    for n in range(RACES):
        other = Thread(target=put, args=(n,))
        other.start()
        ours[n] = racer.write(f"{s3}/t/_delta_log/{n:020}.json", "ours")
        other.join()
    for n in range(RACES):
        assert {ours[n], theirs[n]} == {"won", "lost"}, (n, ours[n], theirs[n])
        there = bytes(obstore.get(store, f"t/_delta_log/{n:020}.json").bytes())
        assert there == (b"ours\n" if ours[n] == "won" else b"theirs\n"), n
    assert set(ours.values()) == {"won", "lost"}, "neither side may always be first, or nothing was raced"


@pytest.mark.slow
def test_a_put_that_finds_itself_is_done(s3: str, racer: Racer) -> None:
    """As where its answer was lost and it was sent again."""
    path = f"{s3}/t/_delta_log/{7:020}.json"
    assert racer.write(path, "mine") == "won"
    assert racer.write(path, "mine") == "won"
    assert racer.write(path, "other") == "lost"
    assert racer.write(path, "other", overwrite=True) == "won"


@pytest.mark.prove
def test_what_is_said_is_so_where_answers_are_lost(s3: str, s3_server: str, tmp_path: Path) -> None:
    """S3A sends a put again whose answer was lost, and hears that the file is there: it is its own."""
    with between(s3_server, seed=3) as endpoint:
        env = {**os.environ, "RIVERMEET_HOME": str(tmp_path), "RIVERMEET_TABLES": s3, "AWS_ENDPOINT_URL": endpoint}
        with racing(Settings.from_env(env)) as racer:
            store = from_url(s3)
            for n in range(60):
                name = f"t/_delta_log/{n:020}.json"
                if n % 3 == 0:
                    obstore.put(store, name, b"theirs\n", mode="create")
                said = racer.write(f"{s3}/{name}", "ours")
                there = bytes(obstore.get(store, name).bytes())
                assert (said, there) == (("lost", b"theirs\n") if n % 3 == 0 else ("won", b"ours\n")), n
        counts = faults(endpoint)
    assert min(counts[kind] for kind in ("refused", "unanswered")) > 3, counts


def test_without_a_compiler_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "jre" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jre"))
    with pytest.raises(JavaError, match=r"tables on S3 need .*javac.*install the JDK"):
        s3_classes_jar(tmp_path / "cache", [])


def test_local_tables_need_none_of_this(settings: Settings) -> None:
    local = replace(settings, tables="/tables", data="/data")
    assert not any("hadoop-aws" in jar.name or "rivermeet-s3" in jar.name for jar in jars(local))
    assert not any("s3" in name for name in conf.server(local, []))
