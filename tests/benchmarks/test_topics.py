"""The rows of topics in `make bench`, of a few records: all come out, and one that is lost leaves no time."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

pytest.importorskip("confluent_kafka")

from benchmarks import topics
from rivermeet.infra.settings import Settings

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]
ROWS = [
    "Rivermeet, of a topic",
    "Rivermeet, of files",
    "Rivermeet, to a topic",
    "Kafka Streams, topic to topic, exactly once",
    "Kafka Streams, topic to topic, at least once",
]


def test_each_row_is_measured(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "WARM_UP", 200)
    done = CliRunner().invoke(topics.main, ["--records", "2000"], env=settings.environ())
    assert done.exit_code == 0, done.output
    lines = (settings.home / "bench" / "topics.jsonl").read_text().splitlines()
    stored = json.loads(lines[-1])
    assert (stored["records"], list(stored["seconds"])) == (2000, ROWS), done.output
    assert all(seconds > 0 for seconds in stored["seconds"].values())


def test_a_record_that_is_lost(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "WARM_UP", 200)
    send = topics.send
    monkeypatch.setattr(topics, "send", lambda broker, topic, count: send(broker, topic, count - 1))
    done = CliRunner().invoke(topics.main, ["--records", "2000", "--no-peers"], env=settings.environ())
    assert done.exit_code == 1 and "did not take all records" in done.output
