from __future__ import annotations

from pathlib import Path

import pytest

from rivermeet.infra.settings import PROJECT, Settings, SettingsError


def test_defaults_are_in_the_project() -> None:
    settings = Settings.from_env({})
    assert settings.home == PROJECT / ".rivermeet"
    assert settings.tables == str(PROJECT / ".rivermeet" / "tables")
    assert settings.engine == "auto"
    assert settings.jars is None
    assert settings.engine_idle_minutes == 30
    assert settings.dagster_home == PROJECT / ".rivermeet" / "dagster"


def test_everything_follows_home(tmp_path: Path) -> None:
    settings = Settings.from_env({"RIVERMEET_HOME": str(tmp_path)})
    places = (settings.tables, settings.data, settings.engine_home, settings.reports)
    assert all(Path(place).is_relative_to(tmp_path) for place in places)


def test_tables_and_data_may_be_urls() -> None:
    env = {"RIVERMEET_TABLES": "s3a://lake/river", "RIVERMEET_DATA": "hdfs://nn:8020/in"}
    settings = Settings.from_env(env)
    assert (settings.tables, settings.data) == ("s3a://lake/river", "hdfs://nn:8020/in")


def test_relative_folders_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.from_env({"RIVERMEET_HOME": "h", "RIVERMEET_DATA": "d"})
    assert (settings.home, settings.data) == (tmp_path / "h", str(tmp_path / "d"))


def test_an_empty_variable_is_an_unset_one() -> None:
    assert Settings.from_env({"RIVERMEET_ENGINE": "", "RIVERMEET_JARS": ""}) == Settings.from_env({})


def test_settings_survive_the_way_to_another_process(tmp_path: Path) -> None:
    env = {
        "RIVERMEET_HOME": str(tmp_path),
        "RIVERMEET_JARS": str(tmp_path),
        "RIVERMEET_ENGINE": "local[2]",
        "RIVERMEET_ENGINE_IDLE_MINUTES": "0.5",
        "RIVERMEET_ENGINE_MEMORY": "512m",
        "RIVERMEET_ENGINE_PORT": "15002",
        "RIVERMEET_ENGINE_AOT_CACHE": "off",
        "RIVERMEET_REPORTS_PORT": "8081",
        "RIVERMEET_JUDGE": "spark",
        "RIVERMEET_JUDGE_MEMORY": "2g",
    }
    settings = Settings.from_env(env)
    assert Settings.from_env(settings.environ()) == settings
    assert (settings.judge, settings.judge_memory, settings.engine_aot_cache) == ("spark", "2g", "off")


@pytest.mark.parametrize("engine", ["auto", "local", "local[2]", "local[*]", "sc://host:15002", "spark://host:7077"])
def test_engines(engine: str) -> None:
    assert Settings.from_env({"RIVERMEET_ENGINE": engine}).engine == engine


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("RIVERMEET_ENGINE", "yarn", "use auto, sc://host:port, local[N]"),
        ("RIVERMEET_ENGINE", "local[0]", "local[*]"),
        ("RIVERMEET_ENGINE", "sc://", "sc://host:port"),
        ("RIVERMEET_ENGINE_IDLE_MINUTES", "soon", "positive number of minutes"),
        ("RIVERMEET_ENGINE_IDLE_MINUTES", "0", "positive number of minutes"),
        ("RIVERMEET_ENGINE_IDLE_MINUTES", "nan", "positive number of minutes"),
        ("RIVERMEET_ENGINE_MEMORY", "lots", "write 4g or 512m"),
        ("RIVERMEET_ENGINE_PORT", "70000", "1 to 65535"),
        ("RIVERMEET_ENGINE_PORT", "-1", "1 to 65535"),
        ("RIVERMEET_ENGINE_AOT_CACHE", "false", "give on or off"),
        ("RIVERMEET_REPORTS_PORT", "0", "use 1 to 65535"),
        ("RIVERMEET_HOME", __file__, "name a folder"),
        ("RIVERMEET_JUDGE", "dagster", "give auto, duckdb or spark"),
        ("RIVERMEET_JUDGE_MEMORY", "much", "write 4g or 512m"),
    ],
)
def test_a_wrong_value_is_named_in_one_line(variable: str, value: str, says: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.from_env({variable: value})
    message = str(error.value)
    assert variable in message
    assert value in message
    assert says in message
    assert "\n" not in message


def test_tables_on_s3_are_reached_as_aws_says() -> None:
    env = {"RIVERMEET_TABLES": "s3://lake/river", "AWS_ENDPOINT_URL": "https://store:9000", "AWS_REGION": "eu-west-1"}
    settings = Settings.from_env(env)
    assert settings.on_s3 and (settings.s3_endpoint, settings.s3_region) == ("https://store:9000", "eu-west-1")
    assert Settings.from_env(settings.environ()) == settings
    assert Settings.from_env({"RIVERMEET_DATA": "s3a://lake/in"}).on_s3
    assert not Settings.from_env({"AWS_ENDPOINT_URL": "http://store"}).on_s3


def test_credentials_are_no_setting() -> None:
    env = {"RIVERMEET_TABLES": "s3://lake/river", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    settings = Settings.from_env(env)
    assert not {"id", "secret"} & {*settings.environ().values(), repr(settings)}


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("AWS_ENDPOINT_URL", "http://store:9000", "is not encrypted; use https, or set AWS_ALLOW_HTTP=true"),
        ("AWS_ENDPOINT_URL", "store:9000", "is no URL"),
        ("RIVERMEET_LEASE_SECONDS", "0.1", "give a number of seconds from 1"),
    ],
)
def test_what_s3_could_not_be_reached_by_is_refused(variable: str, value: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Settings.from_env({"RIVERMEET_TABLES": "s3://lake/river", variable: value})
