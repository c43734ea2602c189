"""A local Maven repository that has a POM without its jar is passed by."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivermeet.infra.engine.jars import fetch
from tests.reliability import handled

pytestmark = pytest.mark.slow
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>javax.inject</groupId><artifactId>javax.inject</artifactId>
<version>1</version></project>"""


def test_a_pom_without_its_jar_is_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = tmp_path / "home" / ".m2" / "repository" / "javax" / "inject" / "javax.inject" / "1"
    local.mkdir(parents=True)
    (local / "javax.inject-1.pom").write_text(POM)
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"-Duser.home={tmp_path / 'home'}")
    fetch("javax.inject:javax.inject:1", tmp_path / "cache")
    assert [jar.name for jar in (tmp_path / "cache" / "jars").iterdir()] == ["javax.inject_javax.inject-1.jar"]
    handled("engine", "a local Maven repository that has a POM without its jar", "jars are fetched past it")
