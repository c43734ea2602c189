"""A broker on this machine, of Kafka's own jars: for the tests, and for trying out topics (`make kafka`).

    rivermeet: a broker listens on 127.0.0.1:40321; Ctrl-C ends it
    export RIVERMEET_KAFKA=127.0.0.1:40321

One process is broker and controller. It listens on the loopback alone, makes no topic that nobody made, and its folder
is removed when it ends. Retention and compaction look every second, so that they can be watched. Jars are fetched once,
as Delta's are. Held by ``tests/infra/sources/kafka/test_faults.py``.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from filelock import FileLock

from infra.engine.jars import CACHE, JarsError, fetch
from infra.engine.java import JavaError, find_java
from infra.engine.processes import Apart, end, spawn

PACKAGE = "org.apache.kafka:kafka_2.13:4.3.1"
_NEEDED = "kafka_2.13-4.3.1.jar"
_HEAP = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_SECONDS = 60.0


class BrokerError(RuntimeError):
    """The broker did not start."""


def kafka_jars(cache: Path = CACHE / "kafka") -> list[Path]:
    """The broker's jars, fetched the first time; Scala's library is Spark's."""
    import pyspark

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
    """

    folder: Path
    port: int = field(default_factory=lambda: free_port())
    controller_port: int = field(default_factory=lambda: free_port())
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What ``RIVERMEET_KAFKA`` names."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, the first time on an empty disk, and wait until it answers."""
        properties = self.folder / "broker.properties"
        if not properties.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
            # A letter in front: the command line takes an id that begins with a hyphen for an option.
            cluster = "k" + base64.urlsafe_b64encode(uuid4().bytes).decode()[1:22]
            self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)).wait(START_SECONDS)
        self.process = self._java("kafka.Kafka", str(properties))
        self._wait()

    def stop(self) -> None:
        """End it in good order."""
        if self.process is not None and self.process.poll() is None:
            end([Apart.of(self.process.pid)])
            self.process.wait()

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        classpath = os.pathsep.join(str(jar) for jar in kafka_jars())
        command = [str(find_java()), *_HEAP, "-cp", classpath, main, *arguments]
        return spawn(command, os.environ, self.folder, self.folder / f"{main}.log")

    def _wait(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        assert self.process is not None
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        deadline = time.monotonic() + START_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                admin.list_topics(timeout=1)
                return
            except KafkaException:
                time.sleep(0.1)
        log = (self.folder / "kafka.Kafka.log").read_text(errors="replace").strip().splitlines()
        self.stop()
        raise BrokerError(f"the broker did not start: {log[-1] if log else 'it said nothing'}")

    def _settings(self) -> dict[str, object]:
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
        }


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(port: int | None = None) -> Iterator[Broker]:
    """A broker as long as the block lasts."""
    folder = Path(tempfile.mkdtemp(prefix="rivermeet-kafka-"))
    broker = Broker(folder) if port is None else Broker(folder, port)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Run a broker until Ctrl-C or SIGTERM (`python -m infra.feeds.broker`)."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with running(int(os.environ.get("PORT", 9092))) as broker:
            print(f"rivermeet: a broker listens on {broker.address}; Ctrl-C ends it", file=sys.stderr)
            print(f"export RIVERMEET_KAFKA={broker.address}", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        pass
    except (BrokerError, JarsError, JavaError) as error:
        sys.exit(f"rivermeet: {error}")


if __name__ == "__main__":
    main()
