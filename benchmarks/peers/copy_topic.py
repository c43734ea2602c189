"""Kafka Streams that reads one topic and writes another, as a peer of reading and writing topics.

Records are copied as bytes: nothing is parsed, stored or checked, so that its time is the least that a topology takes.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.peers.kafka_streams import PeerError, class_path
from rivermeet.infra.engine.java import JavaError, find_java

PEERS = {"eos": "Kafka Streams, topic to topic, exactly once", "alo": "Kafka Streams, topic to topic, at least once"}
LIMIT_S = 600


def copy_topic(guarantee: str, address: str, topic: str, count: int, scratch: Path) -> float:
    """Seconds from the start of the program until the other topic has so many committed records.

    Parameters
    ----------
    guarantee
        ``eos`` or ``alo``.
    topic
        Is read, and written as ``TOPIC-GUARANTEE``, which is made with as many partitions.

    Raises
    ------
    JavaError, JarsError
        Where it cannot run here.
    PeerError
        Where it fails.
    """
    java = find_java()
    javac = shutil.which("javac", path=str(java.parent))
    if javac is None:
        raise JavaError(f"no javac beside {java}: install a JDK, not only a JRE")
    jars, classes = class_path(), scratch / "classes"
    source = Path(__file__).with_name("CopyTopic.java")
    program = [str(java), "-Xmx1g", "-cp", f"{classes}:{jars}", "CopyTopic"]
    arguments = [guarantee, address, topic, f"{topic}-{guarantee}", str(count), str(scratch / "state")]
    for command in ([javac, "-cp", jars, "-d", str(classes), str(source)], [*program, *arguments]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
            raise PeerError(f"{Path(command[0]).name} failed ({done.returncode}): {said[0]}")
    return float(done.stdout.split()[-1])
