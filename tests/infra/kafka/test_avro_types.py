"""Columns as Avro: each type of a changelog, there and back by the reader that topics are read with."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("fastavro")
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from rivermeet.infra.kafka.formats.avro import avro_schema
from rivermeet.infra.kafka.refusals import TypeWithoutFormError

NOON = datetime(2013, 1, 1, 12, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (pa.bool_(), "boolean", True),
        (pa.int8(), "int", -128),
        (pa.int32(), "int", 2**31 - 1),
        (pa.int64(), "long", -(2**63)),
        (pa.float32(), "float", 1.5),
        (pa.float64(), "double", 0.1),
        (pa.string(), "string", "ä"),
        (pa.binary(), "bytes", b"\xff"),
        (pa.date32(), {"type": "int", "logicalType": "date"}, date(1969, 12, 31)),
        (pa.timestamp("us", "UTC"), {"type": "long", "logicalType": "timestamp-micros"}, NOON),
        (pa.timestamp("us"), {"type": "long", "logicalType": "local-timestamp-micros"}, NOON.replace(tzinfo=None)),
        (
            pa.decimal128(5, 2),
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            Decimal("-123.45"),
        ),
        (pa.list_(pa.int32()), {"type": "array", "items": ["null", "int"]}, [1, None]),
        (pa.map_(pa.string(), pa.int32()), {"type": "map", "values": ["null", "int"]}, {"a": 1}),
        (
            pa.struct([("b", pa.int32())]),
            {
                "type": "record",
                "name": "row_a",
                "fields": [{"name": "b", "type": ["null", "int"], "default": None}],
            },
            {"b": 2},
        ),
    ],
    ids=str,
)
def test_there_and_back(kind: pa.DataType, written: Any, value: Any) -> None:
    schema = avro_schema("row", [pa.field("a", kind)])
    assert schema["fields"] == [{"name": "a", "type": ["null", written], "default": None}]
    parsed = parse_schema(json.loads(json.dumps(schema)))
    for given in (value, None):
        body = BytesIO()
        schemaless_writer(body, parsed, {"a": given})
        assert schemaless_reader(BytesIO(body.getvalue()), parsed, None) == {"a": given}


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (pa.field("a b", pa.int32()), "column 'a b' is no name in Avro"),
        (pa.field("a", pa.map_(pa.int32(), pa.int32())), "column 'row_a' is of type map<int32, int32>"),
        (pa.field("a", pa.duration("us")), r"column 'row_a' is of type duration\[us\]"),
    ],
)
def test_what_avro_has_no_form_for(column: pa.Field, says: str) -> None:
    with pytest.raises(TypeWithoutFormError, match=says):
        avro_schema("row", [column])
