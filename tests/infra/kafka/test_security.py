"""Topics read and written behind a login and TLS, on a real broker; what opens it is in no log, metadata or table.

| listener | librdkafka's properties |
|---|---|
| SASL_PLAINTEXT, SCRAM-SHA-512 | ``sasl.username``, ``sasl.password`` |
| SASL_SSL, PLAIN | the same, and ``ssl.ca.location`` |
| SSL | ``ssl.ca.location`` alone |
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import dagster as dg
import pytest

from rivermeet.pipelines import limits

pytest.importorskip("confluent_kafka")

from rivermeet.assets.cli.show.status import status_table
from rivermeet.infra.engine.java import find_java
from rivermeet.infra.kafka.connection import Connection
from rivermeet.infra.kafka.refusals import BrokerUnavailableError
from rivermeet.infra.settings import Settings
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.pipelines import JSON, Kafka, Pipeline, Text
from tests.assets.home import homed
from tests.infra.sinks.test_delivery import committed
from tests.infra.sources.kafka.town import Town
from tests.servers.broker import Broker, running
from tests.servers.ports import free_port

pytestmark = pytest.mark.prove

USER, PASSWORD, STORE = "ann-7Qx2", "s3cret-9Zk4", "keystore-pw"
LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")


@dataclass(frozen=True)
class Secured:
    """A broker with a listener of each kind beside its own, and the certificate that it shows."""

    broker: Broker
    ports: Mapping[str, int]
    certificate: Path

    def variables(self, listener: str, **more: str) -> dict[str, str]:
        """What a user sets to be let in."""
        given = {"RIVERMEET_KAFKA": f"127.0.0.1:{self.ports[listener]}", "RIVERMEET_KAFKA_SECURITY_PROTOCOL": listener}
        if listener.startswith("SASL"):
            mechanism = "SCRAM-SHA-512" if listener == "SASL_PLAINTEXT" else "PLAIN"
            given["RIVERMEET_KAFKA_SASL_MECHANISM"] = mechanism
            given |= {"RIVERMEET_KAFKA_SASL_USERNAME": USER, "RIVERMEET_KAFKA_SASL_PASSWORD": PASSWORD}
        if listener.endswith("SSL"):
            given["RIVERMEET_KAFKA_SSL_CA_LOCATION"] = str(self.certificate)
        return given | more


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    certificate = certified(folder)
    ports = {listener: free_port() for listener in LISTENERS}
    port, controller = free_port(), free_port()
    ours = [f"{listener}://127.0.0.1:{number}" for listener, number in {"PLAINTEXT": port, **ports}.items()]
    login = "org.apache.kafka.common.security"
    more = {
        "listeners": ",".join([*ours, f"CONTROLLER://127.0.0.1:{controller}"]),
        "advertised.listeners": ",".join(ours),
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", *(f"{listener}:{listener}" for listener in LISTENERS)]
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{login}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        ),
        "ssl.keystore.location": folder / "keystore.p12",
        "ssl.keystore.password": STORE,
        "ssl.keystore.type": "PKCS12",
    }
    format = ("--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]")
    with running(port=port, controller_port=controller, more=more, format=format) as broker:
        yield Secured(broker, ports, certificate)


def certified(folder: Path) -> Path:
    """A keystore that signs itself, and its certificate as clients take it."""
    keytool = find_java().with_name("keytool")
    store = ["-keystore", str(folder / "keystore.p12"), "-storepass", STORE, "-alias", "broker"]
    made = ["-genkeypair", "-keyalg", "RSA", "-storetype", "PKCS12", "-dname", "CN=broker", "-ext", "SAN=IP:127.0.0.1"]
    for arguments in ([*made, *store], ["-exportcert", "-rfc", "-file", str(folder / "broker.pem"), *store]):
        subprocess.run([keytool, *arguments], check=True, capture_output=True)
    return folder / "broker.pem"


@pytest.mark.parametrize(("listener", "reader"), [*((name, "driver") for name in LISTENERS), ("SASL_SSL", "engine")])
def test_read_and_written(
    secured: Secured,
    town: Town,
    settings: Settings,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    listener: str,
    reader: Literal["driver", "engine"],
) -> None:
    open_to_all = Town(town.world, secured.broker)
    open_to_all.make("stock")
    open_to_all.send("stock", (0, "a", {"n": 1}, 10), (0, "b", {"n": 2}, 11))
    pipeline = Pipeline("shop")
    stock = pipeline.table("stock", Kafka(open_to_all.named("stock"), key=Text("id"), value=JSON({"n": "INT"})))
    stock.to_topic(open_to_all.named("out"), partitions=1)
    home = tmp_path / "home"
    given = Settings.from_env(secured.variables(listener))
    with homed(pipeline, home, settings, kafka=given.kafka, topic_reader=reader) as made:
        assert made.run(), made.said
        status = status_table(made.project, pipeline)
        events = made.instance.get_event_records(dg.EventRecordsFilter(dg.DagsterEventType.ASSET_MATERIALIZATION))
        shown = "\n".join([*made.said, status, repr(events), caplog.text, *capfd.readouterr()])
    assert [message.key() for message in committed(open_to_all, open_to_all.named("out"))] == [b"a", b"b"]
    secrets = [PASSWORD, f":{secured.ports[listener]}", *([USER] if listener.startswith("SASL") else [])]
    assert not [secret for secret in secrets if secret in shown]
    folders = [home, settings.engine_home]
    held = [
        (path, secret)
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
        for secret in secrets
        if has(path, secret)
    ]
    assert held == []


def has(path: Path, secret: str) -> bool:
    return secret.encode() in path.read_bytes()


@pytest.mark.parametrize(
    ("listener", "wrong", "why"),
    [
        ("SASL_PLAINTEXT", {"RIVERMEET_KAFKA_SASL_PASSWORD": "wr0ng"}, "_AUTHENTICATION"),
        ("SASL_SSL", {"RIVERMEET_KAFKA_SASL_USERNAME": "wr0ng"}, "_AUTHENTICATION"),
        ("SSL", {"RIVERMEET_KAFKA_SSL_CA_LOCATION": ""}, "_SSL"),
    ],
)
def test_a_user_who_is_refused(
    secured: Secured,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    listener: str,
    wrong: dict[str, str],
    why: str,
) -> None:
    """Without the certificate, the broker is none that is trusted."""
    monkeypatch.setattr(limits, "BROKER_SECONDS", 4.0)
    connection = Connection(Settings.from_env(secured.variables(listener, **wrong)).kafka)
    with pytest.raises(BrokerUnavailableError, match=rf"does not answer as it should \({why}\)") as refused:
        topic_state(connection, "stock")
    said = str(refused.value) + "".join(capfd.readouterr())
    assert not [word for word in (PASSWORD, "wr0ng", USER, "127.0.0.1") if word in said]


def test_a_secret_would_be_found(tmp_path: Path) -> None:
    """The search of the test above, where there is one."""
    (tmp_path / "log").write_bytes(os.urandom(10) + PASSWORD.encode())
    assert has(tmp_path / "log", PASSWORD)
