"""`rivermeet.toml`: where it is found, what it says, what wins, and what is refused."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from rivermeet.infra import settings as infra_settings
from rivermeet.infra.project_file import KEYS, ProjectFileError, find_project, read_project
from rivermeet.infra.settings import PROJECT, Settings, SettingsError, default_cache

TOML = """
pipelines = ["flows/**/*.py"]
home = "state"
data = "in/files"
tables = "s3://lake/river"
engine_idle_minutes = 5
judge = "spark"

[kafka]
bootstrap.servers = "b:9092"
"sasl.username" = "shop"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "rivermeet.toml").write_text(TOML)
    return tmp_path


def test_it_is_found_upwards(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_project(root) == find_project(root / "deep" / "er") == root
    monkeypatch.chdir(root / "deep" / "er")
    assert Settings.from_env({}).project == root
    assert Settings.from_env({"RIVERMEET_PROJECT": str(PROJECT)}).project == PROJECT


def test_settings_are_the_file_s_and_places_are_relative_to_it(root: Path) -> None:
    settings = Settings.from_env({"RIVERMEET_PROJECT": str(root)})
    assert (settings.home, settings.data, settings.tables) == (
        root / "state",
        str(root / "in/files"),
        "s3://lake/river",
    )
    assert (settings.engine_idle_minutes, settings.judge, settings.engine_memory) == (5.0, "spark", "4g")
    assert settings.kafka == {"bootstrap.servers": "b:9092", "sasl.username": "shop"}
    assert read_project(root).pipelines == ("flows/**/*.py",)
    # A process that is started with them has the same, wherever it works.
    assert Settings.from_env(settings.environ()) == settings


def test_a_variable_wins(root: Path) -> None:
    env = {"RIVERMEET_PROJECT": str(root), "RIVERMEET_JUDGE": "duckdb", "RIVERMEET_KAFKA": "c:1", "RIVERMEET_DATA": ""}
    settings = Settings.from_env(env)
    assert (settings.judge, settings.kafka["bootstrap.servers"], settings.data) == ("duckdb", "c:1", f"{root}/in/files")


def test_the_file_may_have_each_setting() -> None:
    beside = {"project", "kafka", "s3_endpoint", "s3_region"}
    assert {*KEYS} == {field.name for field in fields(Settings)} - beside


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "jugde = 'spark'",
            "rivermeet.toml has no setting 'jugde'; there are cache, data, engine, engine_aot_cache",
        ),
        ("s3_region = 'eu'", "has no setting 's3_region'"),
        ("judge = ", "rivermeet.toml is no TOML: Invalid value (at end of document)"),
        ("home = true", "rivermeet.toml: home is True; give a text or a number"),
        ("kafka = 'b:9092'", "kafka is a table of librdkafka's properties; write [kafka]"),
        ("pipelines = 'a.py'", "pipelines is 'a.py'; list files, as in "),
        ("pipelines = ['../a.py']", "a project's pipelines are inside its folder"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "rivermeet.toml").write_text(text)
    with pytest.raises(ProjectFileError) as refused:
        Settings.from_env({"RIVERMEET_PROJECT": str(tmp_path)})
    assert says in str(refused.value)


def test_a_folder_that_is_no_project_is_named_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(ProjectFileError, match=rf"^{tmp_path} has no rivermeet.toml; .* `rivermeet init`$"):
        Settings.from_env({"RIVERMEET_PROJECT": str(tmp_path)})


@pytest.mark.parametrize(
    ("text", "env", "says"),
    [
        ("judge = 'dagster'", {}, "{root}/rivermeet.toml: judge=dagster cannot be used; give auto, duckdb or spark"),
        (
            "judge = 'spark'",
            {"RIVERMEET_JUDGE": "dagster"},
            "RIVERMEET_JUDGE=dagster cannot be used; give auto, duckdb or spark",
        ),
        ("[kafka]\ngroup.id = 'g'", {}, "{root}/rivermeet.toml: kafka.group.id cannot be set: "),
    ],
)
def test_a_wrong_value_is_named_where_it_stands(tmp_path: Path, text: str, env: dict[str, str], says: str) -> None:
    (tmp_path / "rivermeet.toml").write_text(text)
    with pytest.raises(SettingsError) as refused:
        Settings.from_env({"RIVERMEET_PROJECT": str(tmp_path), **env})
    assert str(refused.value).startswith(says.format(root=tmp_path))
    assert str(refused.value.fields["variable"]).startswith("RIVERMEET_"), "a program reads it from there"


def test_what_is_fetched_is_kept_once_for_all_projects(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"RIVERMEET_PROJECT": str(root)}
    # Of a checkout, `make` keeps it: one place says so.
    assert Settings.from_env(here).cache == PROJECT / ".jars"
    assert Settings.from_env({**here, "RIVERMEET_CACHE": str(tmp_path)}).cache == tmp_path
    monkeypatch.setattr(infra_settings, "PROJECT", tmp_path / "site-packages" / "rivermeet")
    assert default_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/rivermeet")
    assert default_cache({}) == Path.home() / ".cache" / "rivermeet"
    # In no project, what runs write is there too.
    (root / "rivermeet.toml").unlink()
    monkeypatch.chdir(root)
    assert Settings.from_env({"XDG_CACHE_HOME": "/c"}).home == Path("/c/rivermeet/.rivermeet")
