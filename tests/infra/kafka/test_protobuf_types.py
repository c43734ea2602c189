"""Columns as Protobuf: each type of a changelog, there and back."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("google.protobuf")

from rivermeet.infra.kafka.formats.protobuf import fill_message, message_class, protobuf_file
from rivermeet.infra.kafka.refusals import TypeWithoutFormError

NOON = datetime(2013, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
COLUMNS = [
    pa.field("n", pa.int32()),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("price", pa.decimal128(5, 2)),
    pa.field("days", pa.list_(pa.date32())),
    pa.field("home", pa.struct([("street", pa.string()), ("since", pa.timestamp("us", "UTC"))])),
]


def test_messages_are_declared_as_columns_are() -> None:
    file = protobuf_file("shop.Trip", COLUMNS)
    (trip,) = file.message_type
    assert (file.package, trip.name, list(file.dependency)) == ("shop", "Trip", ["google/protobuf/timestamp.proto"])
    assert [(f.number, f.name, f.type_name, f.label) for f in trip.field] == [
        (1, "n", "", 1),
        (2, "at", ".google.protobuf.Timestamp", 1),
        (3, "price", "", 1),
        (4, "days", "", 3),
        (5, "home", ".shop.Trip.HomeValue", 1),
    ]
    assert not protobuf_file("Bare", [pa.field("n", pa.int64())]).dependency


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (pa.bool_(), False, False),
        (pa.int16(), -7, -7),
        (pa.int64(), -(2**63), -(2**63)),
        (pa.float32(), 1.5, 1.5),
        (pa.float64(), 0.1, 0.1),
        (pa.string(), "", ""),
        (pa.binary(), b"\xff", b"\xff"),
        (pa.date32(), date(1969, 12, 31), "1969-12-31"),
        (pa.timestamp("us"), NOON.replace(tzinfo=None), "2013-01-01T12:00:00.000001"),
        (pa.decimal128(5, 2), Decimal("-123.45"), "-123.45"),
        (pa.list_(pa.int32()), [1, 0], [1, 0]),
    ],
    ids=str,
)
def test_there_and_back(kind: pa.DataType, value: Any, found: Any) -> None:
    made = message_class([protobuf_file("shop.Trip", [pa.field("a", kind)])], "shop.Trip")
    again = made.FromString(fill_message(made(), {"a": value}).SerializeToString())
    assert getattr(again, "a") == found  # noqa: B009
    nothing = made.FromString(fill_message(made(), {"a": None}).SerializeToString())
    if isinstance(value, list):
        assert list(getattr(nothing, "a")) == []  # noqa: B009
    else:
        assert again.HasField("a") and not nothing.HasField("a"), "null is absent, and 0 is not"


def test_messages_in_messages() -> None:
    made = message_class([protobuf_file("shop.Trip", COLUMNS)], "shop.Trip")
    row = {"n": None, "at": NOON, "price": None, "days": [], "home": {"street": None, "since": NOON}}
    again: Any = made.FromString(fill_message(made(), row).SerializeToString())
    assert again.at.ToDatetime(UTC) == NOON and again.home.since.ToDatetime(UTC) == NOON
    assert not again.home.HasField("street")
    empty: Any = made.FromString(fill_message(made(), {"home": {"street": None, "since": None}}).SerializeToString())
    assert empty.HasField("home"), "a struct of nulls is no null"


def test_what_protobuf_has_no_form_for() -> None:
    with pytest.raises(TypeWithoutFormError, match="column 'a' is of type map<string, int32>"):
        protobuf_file("T", [pa.field("a", pa.map_(pa.string(), pa.int32()))])
    with pytest.raises(TypeWithoutFormError, match="column 'a-b' is no name in Protobuf"):
        protobuf_file("T", [pa.field("a-b", pa.int32())])
    made = message_class([protobuf_file("T", [pa.field("a", pa.list_(pa.int32()))])], "T")
    with pytest.raises(TypeWithoutFormError, match="an array with a null in it"):
        fill_message(made(), {"a": [1, None]})
