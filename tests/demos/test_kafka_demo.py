"""The demo over topics: the rows of files, row by row, or what differs; and nothing is left of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

pytest.importorskip("confluent_kafka")

from rivermeet.assets.demo import topics
from rivermeet.assets.project import demo_project
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Avro, Kafka
from tests.assets.home import project_in
from tests.demos.kafka import Compared, demonstrated
from tests.demos.over_topics import AVRO, over_topics, results

pytestmark = pytest.mark.timeout(1200)


def test_the_same_nodes_over_topics() -> None:
    made = over_topics(demo_project().pipeline("flights"), AVRO["flights"])
    original = demo_project().pipeline("flights")
    assert [node.name for node in made.nodes] == [node.name for node in original.nodes]
    reads = {node.name: node.source.reads for node in made.nodes if node.source is not None}
    assert all(isinstance(one, Kafka) and one.topic == f"flights.{name}" for name, one in reads.items())
    assert {name for name, one in reads.items() if isinstance(one, Kafka) and isinstance(one.value, Avro)} == {
        "flights",
        "planes",
    }
    for node in made.nodes:
        assert node.partitions == original.node(node.name).partitions
        if node.operation is not None:
            assert all(part is made.node(part.name) for part in node.operation.inputs.values())
    assert [node.name for node in results(made)] == ["trips", "enriched_departures", "fleet"]
    assert {sink.topic: type(sink.value).__name__ for sink in made.sinks} == {
        "flights.trips": "JSON",
        "flights.enriched_departures": "JSON",
        "flights.fleet": "Avro",
    }
    assert not original.sinks


def test_what_is_equal() -> None:
    assert str(Compared("trips", "t", 2, 2, 0, 0)).endswith("equal: 2 rows of files, 2 read back of topic t")
    assert not Compared("trips", "t", 0, 0, 0, 0).is_equal, "of no rows"
    assert not Compared("trips", "t", 2, 2, 1, 1).is_equal
    assert not Compared("trips", "t", 2, 3, 0, 1).is_equal, "one of them twice"


def demo(settings: Settings, home: Path, steps: int | None = None) -> tuple[bool, list[str]]:
    said: list[str] = []
    project = project_in(home, settings, say=said.append)
    return demonstrated(demo_project().pipeline("invoice"), project, steps), said


@pytest.mark.prove
def test_equal_and_nothing_is_left(settings: Settings, tmp_path: Path) -> None:
    green, said = demo(settings, tmp_path)
    assert green, said
    assert said[-3:] == [
        "the rows of both ways:",
        "  invoices                 equal: 5 rows of files, 5 read back of topic invoice.invoices",
        "  checked_purchases        equal: 8 rows of files, 8 read back of topic invoice.checked_purchases",
    ]
    assert not list(tmp_path.glob("demo-kafka-*"))


@pytest.mark.prove
def test_a_row_that_differs_is_found(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = topics.rows

    def altered(path: Path, not_known: str | None) -> Iterable[object]:
        for row in read(path, not_known):
            yield row | ({"quantity": 9} if row.get("purchase_id") == "P-1001" else {})

    monkeypatch.setattr(topics, "rows", altered)
    green, said = demo(settings, tmp_path, steps=1)
    assert not green
    assert said[-2:] == [
        "  invoices                 UNEQUAL: 1 row of files alone, 1 of topic invoice.invoices alone",
        "  checked_purchases        UNEQUAL: 1 row of files alone, 1 of topic invoice.checked_purchases alone",
    ]


@pytest.mark.prove
def test_interrupted(settings: Settings, tmp_path: Path) -> None:
    """Ctrl-C while it joins: broker and registry end, and their folders and its own go."""
    env = {**os.environ, **settings.environ(), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.demos.kafka", "invoice"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    line = next(line for line in process.stdout if line.startswith("step 1"))
    servers = [one for one in psutil.Process(process.pid).children() if "-Xmx256m" in one.cmdline()]
    assert line and len(servers) == 2
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    # What the engine is computing then may have to end first.
    process.communicate(timeout=300)
    assert process.returncode != 0
    assert not any(one.is_running() for one in servers)
    left = [p.name for p in [*tmp_path.iterdir(), *settings.home.iterdir()]]
    assert not [name for name in left if re.match("rivermeet-(kafka|registry)|demo-kafka", name)]
