"""Payloads of each format as typed columns: what Spark makes of the bytes, or of the text that they were decoded to."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.kafka.formats.codecs import decoders_of
from rivermeet.infra.sources.kafka.landing import SCHEMA, Payloads, landing_of
from rivermeet.infra.sources.kafka.rows import decode_landed
from rivermeet.infra.sources.landing_folder import LandingFolder
from rivermeet.pipelines import JSON, Avro, Kafka, Number, Protobuf, Raw, Text
from rivermeet.pipelines.reads.kafka import Format
from tests.infra.sources.kafka.formats.test_formats import BOTH, LOCAL, ORDER, REGISTRY, WIDE, avro, framed, message

pytestmark = pytest.mark.slow

NESTED = {
    "type": "record",
    "name": "Nested",
    "fields": [
        {"name": "list", "type": {"type": "array", "items": "bytes"}},
        {"name": "inner", "type": {"type": "record", "name": "In", "fields": [{"name": "day", "type": "string"}]}},
    ],
}
MOMENT = datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
EXACT = {"b": b"\xff\x00", "d": Decimal("1234567.89"), "t": MOMENT, "day": date(2024, 2, 29), "x": float("-inf")}
TYPES = {"b": "BINARY", "d": "DECIMAL(9,2)", "t": "TIMESTAMP", "day": "DATE", "x": "DOUBLE"}


NO_OBJECT = "the value is not one JSON object with fields of the declared types"
CASES: dict[str, tuple[Format, bytes | None, list[Any] | str]] = {
    "JSON": (JSON(BOTH), b' {"n": 7, "id": "a", "more": [1]}\n', ["a", 7]),
    "JSON of a registry": (JSON(BOTH), framed(5, b'{"n": 7}'), [None, 7]),
    "no value": (JSON(BOTH), None, [None, None]),
    "two objects": (JSON(BOTH), b'{"n": 1} {"n": 2}', NO_OBJECT),
    "nothing": (JSON(BOTH), b"", NO_OBJECT),
    "not UTF-8": (JSON(BOTH), b'{"id": "\xff"}', "the value is not UTF-8 text"),
    "another type": (JSON(BOTH), b'{"n": 1.5}', "column 'n': '1.5' is not INT"),
    "every digit": (
        JSON({"d": "DECIMAL(30,2)", "n": "BIGINT", "s": "STRING"}),
        b'{"d": 12345678901234567890.10, "n": 1e3, "s": 0.10}',
        [Decimal("12345678901234567890.10"), 1000, "0.10"],
    ),
    "a digit too many": (JSON({"d": "DECIMAL(10,2)"}), b'{"d": 9.505}', "column 'd': '9.505' is not DECIMAL(10,2)"),
    "a time of no day": (JSON({"t": "TIMESTAMP"}), b'{"t": "10:05:00"}', "column 't': '10:05:00' is not TIMESTAMP"),
    "Avro": (Avro(BOTH), framed(7, avro(ORDER, {"id": "a", "n": -1})), ["a", -1]),
    "Avro of another type": (
        Avro({"id": "INT"}),
        framed(7, avro(ORDER, {"id": "a", "n": 1})),
        "column 'id': 'a' is not INT",
    ),
    "Avro's own types": (
        Avro(TYPES, json.dumps(WIDE)),
        avro(WIDE, EXACT),
        [b"\xff\x00", EXACT["d"], MOMENT.replace(tzinfo=None), EXACT["day"], float("-inf")],
    ),
    "Avro, nested": (
        Avro({"list": "ARRAY<BINARY>", "inner": "STRUCT<day: DATE>"}, json.dumps(NESTED)),
        avro(NESTED, {"list": [b"\x01", b""], "inner": {"day": "2024-02-29"}}),
        [[b"\x01", b""], {"day": date(2024, 2, 29)}],
    ),
    "Protobuf": (
        Protobuf({"n": "BIGINT", "maybe": "INT", "raw": "BINARY"}, "shop.Order", LOCAL),
        message(n=2**60, raw=b"\xff"),
        [2**60, None, b"\xff"],
    ),
    "text": (Text(), "ä".encode(), ["ä"]),
    "empty text": (Text(), b"", [""]),
    "no text": (Text(), b"\xff", "the value is not UTF-8 text"),
    "bytes": (Raw("bytes"), b"\xff", [b"\xff"]),
    "a number": (Number("DOUBLE"), struct.pack(">d", 0.1), [0.1]),
    "an infinite one": (Number("FLOAT"), struct.pack(">f", float("inf")), [float("inf")]),
}


@pytest.mark.parametrize("case", CASES)
def test_typed_or_dead(spark: SparkSession, tmp_path: Path, case: str) -> None:
    format, payload, expected = CASES[case]
    row = landed(spark, tmp_path, Kafka("t", key=Text("k"), value=format), (3, 5, 10, b"key", payload, None))
    typed = list(row["typed"].values())
    if isinstance(expected, str):
        assert row["malformed"] == expected
    else:
        assert (row["malformed"], typed[1:-4]) == (None, expected)
    assert (typed[0], typed[-4:]) == ("key", [10, 3, 5, payload is None])
    assert (row["file"], row["line"], row["modified_ms"]) == ("t/3", 5, 10)


def landed(spark: SparkSession, folder: Path, topic: Kafka, payloads: tuple[Any, ...]) -> Mapping[str, Any]:
    """The one row that a record becomes."""
    landing = LandingFolder.create(folder / "landing", 1, SCHEMA)
    given = Payloads(*[[cell] for cell in payloads])
    assert landing.write([landing_of(topic, decoders_of(topic, REGISTRY))(0, [0], [0], given)]) == 1
    (row,) = decode_landed(landing.read(spark), topic).collect()
    return row.asDict(recursive=True)
