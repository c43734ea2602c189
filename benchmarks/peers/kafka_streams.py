"""Kafka Streams on a real broker, as a peer: the workloads' files through topics, its joins, and its answer.

    python -m benchmarks.peers.kafka_streams eos fk DATA SCRATCH

A broker of one node that listens on the loopback alone is started for the run, and all that is written goes to a folder
in SCRATCH that is removed afterwards. ``eos`` is exactly once, ``alo`` at least once. One line of JSON is printed. Its
``peak_rss_mb`` is of the process with Kafka Streams and the producer, without the broker's.

The first epoch's clock starts with the program, its records in the topics already; a later one's with the first record
sent. It stops at the last record written before nothing has been written for five seconds. The settings are Kafka
Streams' own, but for: no cache, as each update is answered; a thread a core; one replica, as there is one broker.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from filelock import FileLock

from benchmarks.peers.line import epoch_files
from rivermeet.infra.engine.jars import JarsError, fetch
from rivermeet.infra.engine.java import JavaError, find_java
from rivermeet.infra.settings import Settings
from tests.servers.broker import Broker

VERSION = "4.2.0"
PACKAGES = f"org.apache.kafka:kafka-streams:{VERSION},org.slf4j:slf4j-nop:1.7.36"
PEERS = {"eos": "Kafka Streams, exactly once", "alo": "Kafka Streams, at least once"}
COPIES = {"eos": "Kafka Streams, topic to topic, exactly once", "alo": "Kafka Streams, topic to topic, at least once"}
COPY_LIMIT_S = 600
WORKLOADS = ("fk", "ss", "st")
ABSENT = 3
# As KafkaStreamsPeer.java reads it.
RECORD = np.dtype(
    [("time", ">i8"), ("key", ">i8"), ("side", "i1"), ("del", "i1"), ("num", ">i8"), ("text", "S32"), ("fk", ">i8")]
)
BROKER = {
    # The workloads' times are long past; nothing may be dropped for its age.
    "log.retention.ms": -1,
    # All threads join in one rebalance; Kafka's own three seconds would count as work.
    "group.initial.rebalance.delay.ms": 1000,
    # Kafka's own, which the broker of the tests has less of.
    "num.network.threads": 3,
    "num.io.threads": 8,
    "background.threads": 10,
    "transaction.state.log.num.partitions": 50,
    "offsets.topic.num.partitions": 50,
    "log.cleaner.dedupe.buffer.size": 128 << 20,
    "log.retention.check.interval.ms": 300_000,
    "log.cleaner.backoff.ms": 15_000,
}


class PeerError(RuntimeError):
    """The peer was there, and failed."""


def measure(guarantee: str, workload: str, data: Path, scratch: Path, idle: int) -> dict[str, Any]:
    """Run a workload.

    Parameters
    ----------
    guarantee : str
        ``eos`` or ``alo``.
    workload : str
        ``fk``, ``ss`` or ``st``.
    data : Path
        Folder of ``epoch_*.parquet``.
    scratch : Path
        Where the broker's log, the state and the records may lie meanwhile.
    idle : int
        For how many ms a task waits for an input that has nothing (``max.task.idle.ms``); less than five seconds, or
        the wait is taken for the end. Not for ``fk``, whose tasks wait for each other's answers.

    Returns
    -------
    dict

    Raises
    ------
    JavaError, JarsError
        If the peer cannot run here.
    PeerError
        If it fails.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="kafka-streams-") as name:
        folder = Path(name)
        records = hand_over(workload, data, folder)
        program = compile_java(folder, "2g", "KafkaStreamsPeer", "Workload")
        with broker(folder / "broker") as address:
            answer = json.loads(_run([*program, guarantee, workload, address, name, str(folder / "state"), str(idle)]))
    later = answer["epochs"][0 if workload == "ss" else 1 :]
    return {
        "peer": PEERS[guarantee],
        "workload": workload,
        "rows_in": records,
        **answer,
        "seconds_initial": answer["epochs"][0],
        "seconds_per_epoch": round(sum(later) / len(later), 3) if later else None,
        "durability": "changelog topics, no fsync",
    }


def copy_topic(guarantee: str, address: str, topic: str, count: int, scratch: Path) -> float:
    """Seconds from the start of the program until a copy of the topic has so many committed records.

    Records are copied as bytes: nothing is parsed, stored or checked, so that its time is the least that a topology
    takes. The copy is ``TOPIC-GUARANTEE``, made with as many partitions; `measure` says what is raised.
    """
    program = compile_java(scratch, "1g", "CopyTopic")
    arguments = [guarantee, address, topic, f"{topic}-{guarantee}", str(count), str(scratch / "state")]
    return float(_run([*program, *arguments], COPY_LIMIT_S).split()[-1])


def compile_java(folder: Path, memory: str, *classes: str) -> list[str]:
    """Compile classes into a folder; the command that starts the first of them."""
    java = find_java()
    javac = shutil.which("javac", path=str(java.parent))
    if javac is None:
        raise JavaError(f"no javac beside {java}: install a JDK, not only a JRE")
    jars, made = class_path(), folder / "classes"
    sources = [str(Path(__file__).with_name(f"{name}.java")) for name in classes]
    _run([javac, "-cp", jars, "-d", str(made), *sources])
    return [str(java), f"-Xmx{memory}", "-cp", f"{made}:{jars}", classes[0]]


def class_path() -> str:
    """Kafka Streams' jars, fetched the first time into the project's cache."""
    cache = Settings.from_env().cache / f"kafka-{VERSION}"
    complete = cache / "complete"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "fetch.lock"):
        if not complete.exists():
            fetch(PACKAGES, cache)
            complete.touch()
    return f"{cache / 'jars'}/*"


def hand_over(workload: str, data: Path, folder: Path) -> int:
    """Write the epochs as the Java program reads them; how many records they have."""
    files = epoch_files(data)
    if not files:
        raise PeerError(f"{data} has no files epoch_*.parquet: write them with python -m benchmarks.data")
    count = 0
    for file in files:
        columns = pq.read_table(file)
        rows = np.zeros(columns.num_rows, RECORD)
        # A table's row is what had arrived, so arrival is the time.
        rows["time"] = columns["seq" if workload == "st" else "ts"].to_numpy()
        for column in set(columns.column_names) & set(RECORD.names or ()):
            rows[column] = columns[column].to_numpy()
        rows.tofile(folder / f"{file.stem}.bin")
        count += len(rows)
    return count


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """A broker of Kafka's own settings, in a folder, for as long as the block lasts; its address."""
    made = Broker(folder, more=BROKER, java=("-Xmx1g",))
    try:
        made.start()
        yield made.address
    finally:
        # Nothing of it is kept, so that an orderly end would be a wait for nothing.
        made.kill()


def _run(command: list[str], limit_s: float | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise PeerError(f"{Path(command[0]).name} failed ({done.returncode}): {said[0]}")
    return done.stdout


def main() -> None:
    """Run a workload as the command line says and print its line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("guarantee", choices=PEERS)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("data", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--idle", type=int, default=0, metavar="MS", help="max.task.idle.ms, below 5000")
    # A run that is asked to end leaves no broker behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        print(json.dumps(measure(**vars(parser.parse_args()))))
    except (JavaError, JarsError) as error:
        print(f"rivermeet: {error}", file=sys.stderr)
        sys.exit(ABSENT)
    except PeerError as error:
        sys.exit(f"rivermeet: {error}")


if __name__ == "__main__":
    main()
