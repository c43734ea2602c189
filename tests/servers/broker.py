"""A broker on this machine, of Kafka's own jars: for the tests, the demo, and trying out topics (`make kafka`).

One process is broker and controller. It listens on the loopback alone, makes no topic that nobody made, and its folder
is removed when it ends. Retention and compaction look every second, so that they can be watched. Jars are fetched once,
as Delta's are. Held by ``tests/infra/sources/kafka/test_faults.py``.
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock

from rivermeet.infra.engine.jars import fetch
from rivermeet.infra.settings import Settings
from tests.servers.java_server import SERVER_START_SECONDS, SMALL, JavaServer
from tests.servers.ports import free_port

PACKAGE = "org.apache.kafka:kafka_2.13:4.3.1"
_NEEDED = "kafka_2.13-4.3.1.jar"


def kafka_jars() -> list[Path]:
    """The broker's jars, fetched the first time; Scala's library is Spark's."""
    import pyspark

    cache = Settings.from_env().cache / "kafka"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "fetch.lock"):
        if not list(cache.glob(f"jars/*{_NEEDED}")):
            fetch(PACKAGE, cache)
    scala = sorted((Path(pyspark.__file__).parent / "jars").glob("scala-library-2.13*.jar"))
    return [*sorted((cache / "jars").glob("*.jar")), *scala]


@dataclass
class Broker:
    """A broker in a folder of its own.

    Attributes
    ----------
    port, controller_port
        Free ports of 127.0.0.1.
    more
        Properties beside its own, or in place of them: other listeners, who may log in.
    format
        Arguments for the tool that prepares its disk, such as ``--add-scram``.
    java
        Options of Java.
    """

    folder: Path
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)
    more: Mapping[str, object] = field(default_factory=dict)
    format: tuple[str, ...] = ()
    java: Sequence[str] = SMALL
    _server: JavaServer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._server = JavaServer("broker", self.folder, self.java)

    @property
    def address(self) -> str:
        """What ``RIVERMEET_KAFKA`` names."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, the first time on an empty disk, and wait until it answers."""
        properties = self.folder / "broker.properties"
        classpath = "-cp", os.pathsep.join(str(jar) for jar in kafka_jars())
        if not properties.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
            # A letter in front: the command line takes an id that begins with a hyphen for an option.
            cluster = "k" + base64.urlsafe_b64encode(uuid4().bytes).decode()[1:22]
            tool = "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties), *self.format
            self._server.java([*classpath, *tool]).wait(SERVER_START_SECONDS)
        self._server.start([*classpath, "kafka.Kafka", str(properties)], self._answers)

    def stop(self) -> None:
        """End it in good order."""
        self._server.stop()

    def kill(self) -> None:
        """End it as a power cut would."""
        self._server.kill()

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            AdminClient({"bootstrap.servers": self.address, "log_level": 0}).list_topics(timeout=1)
        except KafkaException:
            return False
        return True

    def _settings(self) -> Mapping[str, object]:
        controller = f"127.0.0.1:{self.controller_port}"
        alone = "transaction.state.log", "share.coordinator.state.topic", "offsets.topic"
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.folder / "data",
            "auto.create.topics.enable": "false",
            **{f"{name}.replication.factor": 1 for name in alone},
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "offsets.topic.num.partitions": 1,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "background.threads": 2,
            "message.max.bytes": 32 << 20,
            "log.cleaner.dedupe.buffer.size": 4 << 20,
            "log.initial.task.delay.ms": 500,
            "log.retention.check.interval.ms": 1000,
            "log.cleaner.backoff.ms": 500,
            **self.more,
        }


@contextmanager
def running(**options: Any) -> Iterator[Broker]:
    """A broker as long as the block lasts; options as of `Broker`."""
    folder = Path(tempfile.mkdtemp(prefix="rivermeet-kafka-"))
    broker = Broker(folder, **options)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
