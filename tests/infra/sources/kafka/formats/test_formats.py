"""What the payloads of each format become: text by the writer's schema, or why they are dead. No broker is needed."""

from __future__ import annotations

import base64
import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from fastavro import parse_schema, schemaless_writer
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from rivermeet.infra.kafka.formats.codecs import Decoded, decoder
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.pipelines import JSON, Avro, Number, Protobuf, Raw, Text
from rivermeet.pipelines.reads.kafka import Format

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}]}
WIDE = {
    "type": "record",
    "name": "Wide",
    "fields": [
        {"name": "b", "type": "bytes"},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "x", "type": ["null", "double"]},
    ],
}
FIELDS = [("id", 1, "STRING", False), ("n", 2, "INT64", False), ("maybe", 3, "INT32", True), ("raw", 4, "BYTES", False)]


def avro(schema: Any, value: Any) -> bytes:
    stream = BytesIO()
    schemaless_writer(stream, parse_schema(schema), value)
    return stream.getvalue()


def framed(id: int, body: bytes, indexes: bytes = b"") -> bytes:
    return b"\0" + struct.pack(">I", id) + indexes + body


def shop() -> FileDescriptorProto:
    """Messages ``shop.Other`` and ``shop.Order``."""
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    for name, number, kind, optional in FIELDS:
        field = order.field.add(
            name=name,
            number=number,
            type=FieldDescriptorProto.Type.Value(f"TYPE_{kind}"),
            label=FieldDescriptorProto.LABEL_OPTIONAL,
            proto3_optional=optional,
        )
        if optional:
            order.oneof_decl.add(name=f"_{name}")
            field.oneof_index = 0
    return file


def message(**values: Any) -> bytes:
    pool = DescriptorPool()
    pool.Add(shop())
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(**values).SerializeToString()


class Known(Registry):
    """A registry that has some schemas, by their paths, and asks nobody."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__("", Path())
        self._known.update({(path, form): schema for path, schema in given.items() for form in ("", "serialized")})

    def _read_cached(self, path: str, file_name: str, form: str) -> dict[str, Any] | None:
        return None


def serialized(*files: FileDescriptorProto) -> list[str]:
    return [base64.b64encode(file.SerializeToString()).decode() for file in files]


def refers(name: str, subject: str) -> dict[str, Any]:
    return {"references": [{"name": name, "subject": subject, "version": 1}]}


MONEY = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "shop.Cents"}]}
CENTS = {"type": "fixed", "name": "shop.Cents", "size": 1}
BILL = {"type": "record", "name": "shop.Bill", "fields": [{"name": "id", "type": "string"},
                                                          {"name": "sum", "type": "shop.Money"}]}  # fmt: skip


def bill() -> FileDescriptorProto:
    """A message ``shop.Bill`` that holds a ``shop.Order`` of another file."""
    file = FileDescriptorProto(name="bill.proto", package="shop", syntax="proto3", dependency=["orders/order.proto"])
    message = file.message_type.add(name="Bill")
    kind = FieldDescriptorProto.TYPE_MESSAGE
    message.field.add(
        name="of", number=1, type=kind, type_name=".shop.Order", label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    return file


ORDER_FILE, BILL_FILE = serialized(shop(), bill())
REGISTRY = Known(
    {
        "schemas/ids/7": {"schema": json.dumps(ORDER)},
        "schemas/ids/8": {"schema": json.dumps({"type": "string"})},
        "schemas/ids/9": {"schema": ORDER_FILE, "schemaType": "PROTOBUF"},
        "schemas/ids/10": {"schema": json.dumps(BILL), **refers("shop.Money", "money/1")},
        "subjects/money%2F1/versions/1": {"schema": json.dumps(MONEY), **refers("shop.Cents", "cents")},
        "subjects/cents/versions/1": {"schema": json.dumps(CENTS)},
        "schemas/ids/11": {"schema": "{"},
        "schemas/ids/12": {"schema": json.dumps(BILL)},
        "schemas/ids/13": {"schema": json.dumps(BILL), **refers("shop.Money", "gone")},
        "schemas/ids/14": {"schema": BILL_FILE, "schemaType": "PROTOBUF", **refers("orders/order.proto", "order")},
        "subjects/order/versions/1": {"schema": ORDER_FILE, "schemaType": "PROTOBUF"},
        "schemas/ids/15": {"schema": BILL_FILE, "schemaType": "PROTOBUF", **refers("orders/order.proto", "gone")},
    }
)
LOCAL = base64.b64encode(FileDescriptorSet(file=[shop()]).SerializeToString()).decode()
BOTH = {"id": "STRING", "n": "INT"}
DECODED: list[tuple[str, Format, bytes | None, Any]] = [
    ("a null value", Avro(BOTH), None, None),
    ("Avro", Avro(BOTH), framed(7, avro(ORDER, {"id": "a", "n": 12})), {"id": "a", "n": 12}),
    ("Avro, no record", Avro({"id": "STRING"}), framed(8, avro("string", "a")), {"id": "a"}),
    ("Avro, local", Avro(BOTH, json.dumps(ORDER)), avro(ORDER, {"id": "b", "n": -1}), {"id": "b", "n": -1}),
    (
        "Avro, logical types",
        Avro({"b": "BINARY", "x": "DOUBLE"}, json.dumps(WIDE)),
        avro(
            WIDE,
            {
                "b": b"\xff",
                "d": Decimal("1.50"),
                "t": datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
                "day": date(2020, 2, 29),
                "x": float("nan"),
            },
        ),
        {"b": "/w==", "d": "1.50", "t": "1970-01-01T00:00:00.001000+00:00", "day": "2020-02-29", "x": "nan"},
    ),
    (
        "Protobuf",
        Protobuf(BOTH, "shop.Order"),
        framed(9, message(id="a", n=2**53 + 1, raw=b"\xff"), b"\x02\x02"),
        {"id": "a", "n": str(2**53 + 1), "raw": "/w=="},
    ),
    (
        "Avro, by schemas that refer to others",
        Avro({"id": "STRING"}),
        framed(10, b"\x02a\x07"),
        {"id": "a", "sum": {"cents": "Bw=="}},
    ),
    (
        "Protobuf, by files that import others",
        Protobuf({"of": "STRING"}, "shop.Bill"),
        framed(14, b"\x0a\x03" + message(id="a"), b"\0"),
        {"of": {"id": "a", "n": "0", "raw": ""}},
    ),
    (
        "Protobuf, local",
        Protobuf(BOTH, "shop.Order", LOCAL),
        message(id="a", maybe=0),
        {"id": "a", "n": "0", "maybe": 0, "raw": ""},
    ),
    ("SMALLINT", Number("SMALLINT"), struct.pack(">h", -2), -2),
    ("INT", Number("INT"), struct.pack(">i", -2), -2),
    ("BIGINT", Number("BIGINT"), struct.pack(">q", 2**62), 2**62),
    ("FLOAT", Number("FLOAT"), struct.pack(">f", 0.5), 0.5),
    ("DOUBLE", Number("DOUBLE"), struct.pack(">d", -0.1), -0.1),
]
BARE = "the value names no schema: it does not begin with a zero byte and the id of one"
DEAD: list[tuple[str, Format, bytes, str]] = [
    ("too short", Avro(BOTH), b"\0\0", BARE),
    ("JSON", Avro(BOTH), b'{"id": 1}', BARE),
    ("no such schema", Avro(BOTH), framed(1, b""), "the value has schema 1, which the registry does not have"),
    ("another kind", Avro(BOTH), framed(9, b""), "the value has schema 9, which is of PROTOBUF and not of Avro"),
    ("a type of nobody", Avro(BOTH), framed(12, b""),
     "the value has schema 12, which has the type shop.Money, and refers to no schema of it"),
    ("a reference to nobody", Avro(BOTH), framed(13, b""),
     "the value has schema 13, which refers to 'shop.Money', and the registry does not have that"),
    ("an import of nobody", Protobuf(BOTH, "shop.Bill"), framed(15, b"\0"),
     "the value has schema 15, which imports 'orders/order.proto', and the registry does not have that"),
    ("no schema", Avro(BOTH), framed(11, b""), "the value has schema 11, which is no schema of Avro"),
    ("cut short", Avro(BOTH), framed(7, b"\x04a"), "the value is not Avro of its schema: EOFError"),
    ("left over", Avro(BOTH), framed(7, b"\x02a\x02xx"), "the value is not Avro of its schema: bytes are left over"),
    ("no record", Avro(BOTH), framed(8, b"\x02a"),
     "the value is no record by its schema, and several columns are declared"),
    ("another message", Protobuf(BOTH, "shop.Order"), framed(9, b"\0"), "the value is a shop.Other and no shop.Order"),
    ("no message", Protobuf(BOTH, "shop.Order"), framed(9, b"\x02\x0e"), "the value names no message of schema 9"),
    ("ends early", Protobuf(BOTH, "shop.Order"), framed(9, b"\x80"), "the value ends before its message is named"),
    ("no Protobuf", Protobuf(BOTH, "shop.Order", LOCAL), b"\xff\xff", "the value is no shop.Order"),
    ("no number", Number("INT"), b"12", "the value has 2 bytes, and a INT has 4"),
]  # fmt: skip


def decoded(format: Format, payload: bytes | None) -> Decoded:
    decode = decoder(format, "value", REGISTRY)
    assert decode is not None
    return decode(payload)


@pytest.mark.parametrize(("format", "payload", "expected"), [case[1:] for case in DECODED], ids=[c[0] for c in DECODED])
def test_text(format: Format, payload: bytes | None, expected: Any) -> None:
    found = decoded(format, payload)
    assert found.problem is None
    assert (None if found.text is None else json.loads(found.text)) == expected


@pytest.mark.parametrize(("format", "payload", "reason"), [case[1:] for case in DEAD], ids=[case[0] for case in DEAD])
def test_reasons(format: Format, payload: bytes, reason: str) -> None:
    found = decoded(format, payload)
    assert found == Decoded(problem=reason)


@pytest.mark.parametrize("format", [JSON(BOTH), Text(), Raw(), None])
def test_what_spark_reads_itself(format: Format | None) -> None:
    assert decoder(format, "key", REGISTRY) is None
