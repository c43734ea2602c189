"""A feed as topics: what is sent, where, and that it is sent once to a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition

from rivermeet.assets.cli.main import main
from rivermeet.pipelines import limits
from tests.servers.broker import Broker


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RIVERMEET_HOME", str(tmp_path))
    monkeypatch.delenv("RIVERMEET_DATA", raising=False)
    return tmp_path


def records(broker: Broker, topic: str) -> list[tuple[Any, Any]]:
    """Key and value of all records, by key."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "x", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
    found, ended = list[tuple[Any, Any]](), 0
    while ended < 4:
        for message in consumer.consume(100, 1.0):
            ended += message.error() is not None
            if message.error() is None:
                found.append((json.loads(message.key() or b""), json.loads(message.value() or b"")))
    consumer.close()
    return sorted(found, key=lambda record: json.dumps(record[0]))


def test_a_feed_is_sent_once(home: Path, broker: Broker) -> None:
    first = CliRunner().invoke(main, ["feed", "invoice", "--step", "1", "--kafka", broker.address])
    assert first.output.splitlines() == [
        "sent 2 records of invoice/products/2024-05-01.jsonl to topic invoice.products",
        "sent 2 records of invoice/customers/2024-05-01.jsonl to topic invoice.customers",
        "sent 3 records of invoice/purchases/2024-05-01.jsonl to topic invoice.purchases",
    ]
    again = CliRunner().invoke(main, ["feed", "invoice", "--step", "1", "--kafka", broker.address])
    assert again.output == "all delivered already\n"
    keys = [key for key, _ in records(broker, "invoice.customers")]
    assert keys == [{"account_id": "ines"}, {"account_id": "tomas"}]
    assert records(broker, "invoice.customers")[0][1]["address"] == "4 Quai Vert, Ghent"
    assert not (home / "data").exists()


def test_a_broker_that_is_not_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BROKER_SECONDS", 1.0)
    result = CliRunner().invoke(main, ["feed", "invoice", "--kafka", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert result.output.startswith(
        "Error: the broker that RIVERMEET_KAFKA or --kafka names does not answer (_TRANSPORT)"
    )
