"""Rows of a changelog as records of a topic, in literal bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from rivermeet.infra.sinks.kafka.messages import Message, messages
from rivermeet.infra.sources.kafka.formats.registry import NONE
from rivermeet.pipelines import JSON, Files, Number, Pipeline, Raw, Text
from rivermeet.pipelines.sink import TopicSink, Written

NODE = ("rivermeet-node", b"orders")


def sink(key: Written | None = None, **columns: str) -> TopicSink:
    """Of a stream with these key columns, and a value ``n``."""
    files = Files("orders/*.csv", "csv", {**columns, "n": "INT", "at": "BIGINT"})
    node = Pipeline("shop").stream("orders", files, key=list(columns), value=["n"], timestamp="at")
    return node.to_topic("orders", key=key)


def row(key: Any, value: Any, timestamp: int = 1000, **more: Any) -> dict[str, Any]:
    return {"key": key, "value": value, "timestamp": timestamp, "partition": 0, "offset": 0, "epoch": 3, **more}


def sent(to: TopicSink, *rows: dict[str, Any]) -> list[Message]:
    return list(messages(to, pa.Table.from_pylist(list(rows)), NONE))


def test_a_row_and_a_tombstone() -> None:
    found = sent(sink(id="STRING"), row({"id": "a"}, {"n": 1}), row({"id": "a"}, None, 2000))
    epoch = ("rivermeet-epoch", b"3")
    assert found == [
        Message(b"a", b'{"n": 1}', 1000, [NODE, epoch]),
        Message(b"a", None, 2000, [NODE, epoch]),
    ]


@pytest.mark.parametrize(
    ("to", "key", "expected"),
    [
        (sink(id="STRING"), {"id": "ä"}, "ä".encode()),
        (sink(JSON(), id="STRING"), {"id": "a"}, b'{"id": "a"}'),
        (sink(id="STRING", leg="INT"), {"id": "a", "leg": 2}, b'{"id": "a", "leg": 2}'),
        (sink(id="BIGINT"), {"id": 7}, b'{"id": 7}'),
        (sink(Number("BIGINT"), id="BIGINT"), {"id": -2}, b"\xff" * 7 + b"\xfe"),
        (sink(Raw(), id="BINARY"), {"id": b"\x00\x01"}, b"\x00\x01"),
        (sink(Text(), id="STRING"), None, None),
    ],
)
def test_keys(to: TopicSink, key: Any, expected: bytes | None) -> None:
    rows = (
        pa.Table.from_pylist([row(key, {"n": 1})]) if key is not None else pa.Table.from_pylist([row(None, {"n": 1})])
    )
    (found,) = messages(to, rows, NONE)
    assert found.key == expected


def test_values_that_json_has_no_form_for() -> None:
    value = {"d": Decimal("1.50"), "t": datetime(2013, 1, 1, tzinfo=UTC), "b": b"\xff", "f": float("nan"), "x": None}
    (found,) = sent(sink(id="STRING"), row({"id": "a"}, value))
    assert found.value == b'{"d": "1.50", "t": "2013-01-01T00:00:00+00:00", "b": "/w==", "f": "nan", "x": null}'


def test_provenance_and_times_before_kafka() -> None:
    trigger = {"side": "left", "partition": 0, "offset": 7}
    (found,) = sent(sink(id="STRING"), row({"id": "a"}, {"n": 1}, -5, trigger=trigger))
    assert found.timestamp == 0
    assert found.headers[2:] == [
        ("rivermeet-trigger", b'{"side": "left", "partition": 0, "offset": 7}'),
        ("rivermeet-timestamp", b"-5"),
    ]
