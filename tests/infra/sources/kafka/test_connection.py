"""What the settings say of a broker, and that no message shows it."""

from __future__ import annotations

import logging
import logging.config
import sys

import pytest

from rivermeet.pipelines import limits

pytest.importorskip("confluent_kafka")

from rivermeet.infra.kafka.connection import Connection
from rivermeet.infra.kafka.refusals import BrokerUnavailableError
from rivermeet.infra.settings import Settings, SettingsError
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.pipelines.extras import ExtraMissingError
from tests.servers.ports import free_port


def test_properties_come_from_variables() -> None:
    given = {"RIVERMEET_KAFKA": "kafka.example:9093", "RIVERMEET_KAFKA_SASL_PASSWORD": "secret"}
    settings = Settings.from_env(given)
    assert settings.kafka == {"bootstrap.servers": "kafka.example:9093", "sasl.password": "secret"}
    assert "secret" not in repr(settings) and "example" not in repr(settings)
    assert Settings.from_env(settings.environ()).kafka == settings.kafka, "handed to other processes"
    assert Settings.from_env({}).kafka == {}


def test_without_its_client_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ExtraMissingError, match=r"confluent-kafka, which is not installed: .*\[kafka\]"):
        Connection({"bootstrap.servers": "kafka.example:9093"})


@pytest.mark.parametrize("name", ["ISOLATION_LEVEL", "GROUP_ID", "AUTO_OFFSET_RESET", "BOOTSTRAP_SERVERS"])
def test_what_an_epoch_depends_on_is_no_setting(name: str) -> None:
    with pytest.raises(SettingsError, match=f"RIVERMEET_KAFKA_{name} cannot be set"):
        Settings.from_env({f"RIVERMEET_KAFKA_{name}": "x"})


def test_a_registry_is_a_url() -> None:
    with pytest.raises(SettingsError, match="RIVERMEET_SCHEMA_REGISTRY is no URL") as refused:
        Settings.from_env({"RIVERMEET_SCHEMA_REGISTRY": "ann:secret@registry"})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({}, "set RIVERMEET_KAFKA to host:port"),
        ({"sasl.pasword": "secret"}, "RIVERMEET_KAFKA_SASL_PASWORD names no property of librdkafka"),
        (
            {"socket.timeout.ms": "secret"},
            "RIVERMEET_KAFKA_SOCKET_TIMEOUT_MS names no property .* or has no value of it",
        ),
    ],
)
def test_settings_that_cannot_be_used(properties: dict[str, str], says: str) -> None:
    given = {"bootstrap.servers": "127.0.0.1:1"} | properties if properties else {}
    with pytest.raises(SettingsError, match=says) as refused:
        _ = Connection(given).admin
    assert "secret" not in str(refused.value)


def test_a_broker_that_is_down(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits, "BROKER_SECONDS", 1.0)
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})
    address = f"127.0.0.1:{free_port()}"
    with caplog.at_level(logging.DEBUG), pytest.raises(BrokerUnavailableError) as refused:
        topic_state(Connection({"bootstrap.servers": address}), "orders")
    said = str(refused.value) + caplog.text + "".join(capfd.readouterr())
    assert "the broker that RIVERMEET_KAFKA names does not answer as it should (_T" in said
    assert address not in said and "127.0.0.1" not in said
