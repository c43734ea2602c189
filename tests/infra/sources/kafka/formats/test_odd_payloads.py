"""Payloads that decoders of other systems round, or end at: decoded exactly, or a dead letter with its reason."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from rivermeet.infra.kafka.formats.avro import avro_decode
from rivermeet.infra.kafka.formats.framing import UndecodableError
from rivermeet.infra.kafka.formats.protobuf import message_class, protobuf_decode, protobuf_file
from rivermeet.infra.kafka.formats.registry import NONE
from rivermeet.pipelines import Avro, Protobuf
from tests.reliability import handled

google = pytest.importorskip("google.protobuf.descriptor_pb2")


def long(number: int) -> bytes:
    """A number as Avro writes it."""
    number, found = (number << 1) ^ (number >> 63), b""
    while number > 0x7F:
        number, found = number >> 7, found + bytes([number & 0x7F | 0x80])
    return found + bytes([number])


def decoded(kind: Any, body: bytes) -> Any:
    writer = {"type": "record", "name": "r", "fields": [{"name": "d", "type": kind}]}
    return json.loads(avro_decode(Avro({"d": "STRING"}, json.dumps(writer)), NONE)(body))["d"]


def decimal(unscaled: int, length: int, **of: Any) -> Any:
    body = unscaled.to_bytes(length, "big", signed=True)
    if "size" in of:
        return decoded({"type": "fixed", "name": "f", "logicalType": "decimal", **of}, body)
    return decoded({"type": "bytes", "logicalType": "decimal", **of}, long(length) + body)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (lambda: decimal(123456, 3, precision=4, scale=2), "1234.56"),
        (lambda: decimal(-123456, 4, precision=4, scale=1, size=4), "-12345.6"),
        (lambda: decimal(10**44 + 1, 20, precision=38, scale=2), f"1{'0' * 42}.01"),
        (lambda: decimal(7, 1, precision=4), "7"),
    ],
)
def test_a_decimal_of_more_digits_than_its_schema_says(found: Any, text: str) -> None:
    assert found() == text
    handled("Kafka", "an Avro decimal with more digits than its schema's precision", "all digits are read")


def test_decimals_in_parts_of_a_schema() -> None:
    """In a union, an array, a record and a type that is named once and used twice; a default is no schema."""
    cents = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 2}
    money = {"type": "record", "name": "M", "fields": [{"name": "m", "type": ["null", cents], "default": None}]}
    fields = [{"name": "d", "type": {"type": "array", "items": money}}, {"name": "e", "type": "M"}]
    writer = json.dumps({"type": "record", "name": "r", "fields": fields})
    body = long(1) + long(1) + long(2) + b"\x30\x39" + long(0) + long(1) + long(2) + b"\x30\x39"
    read = avro_decode(Avro({"d": "STRING", "e": "STRING"}, writer), NONE)
    assert json.loads(read(body)) == {"d": [{"m": "123.45"}], "e": {"m": "123.45"}}


def test_instants_to_the_nanosecond_are_numbers() -> None:
    """Nobody has a type for them: as BIGINT every digit is there, as TIMESTAMP they are dead letters."""
    at = 1_700_000_000_123_456_789
    assert decoded({"type": "long", "logicalType": "timestamp-nanos"}, long(at)) == at
    with pytest.raises(UndecodableError, match="OverflowError"):
        decoded({"type": "long", "logicalType": "timestamp-millis"}, long(253402300800000))


WELL_KNOWN = ("timestamp", "duration", "struct", "any")


@pytest.fixture
def odd() -> tuple[Any, Any]:
    """The class of a message of Google's own types, and what decodes it."""
    file = protobuf_file("s.T", [])
    for number, name in enumerate(WELL_KNOWN, 1):
        file.dependency.append(f"google/protobuf/{name}.proto")
        kind = {"struct": "Value"}.get(name, name.title())
        file.message_type[0].field.add(name=name, number=number, type=11, label=1, type_name=f".google.protobuf.{kind}")
    files = google.FileDescriptorSet(file=[file]).SerializeToString()
    format = Protobuf({"timestamp": "STRING"}, "s.T", base64.b64encode(files).decode())
    return message_class([file], "s.T"), protobuf_decode(format, NONE)


@pytest.mark.parametrize(
    ("field", "values", "why"),
    [
        ("timestamp", {"seconds": 253402300800}, "Seconds 253402300800 must be in range"),
        ("timestamp", {"nanos": -5}, "Nanos -5 must be in a range"),
        ("duration", {"seconds": 10**12}, "Duration is not valid"),
        ("struct", {"number_value": float("nan")}, "NaN"),
        ("any", {"type_url": "type.googleapis.com/x.Y", "value": b"a"}, "x.Y"),
    ],
)
def test_what_json_has_no_form_for(odd: tuple[Any, Any], field: str, values: dict[str, Any], why: str) -> None:
    made, decode = odd
    message = made()
    for name, value in values.items():
        setattr(getattr(message, field), name, value)
    with pytest.raises(UndecodableError, match=f"is a s.T without a form in JSON: .*{why}"):
        decode(message.SerializeToString())
    handled("Kafka", "a Protobuf Timestamp out of range, an Any of an unknown type", "a dead letter with its reason")
