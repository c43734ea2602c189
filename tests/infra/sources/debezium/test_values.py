"""Values by their semantic types: what the database had, or a reason why nobody knows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from rivermeet.infra.kafka.formats.framing import UndecodableError
from rivermeet.infra.sources.debezium.values import Kind, as_text
from tests.reliability import handled

TIME, CONNECT = "io.debezium.time", "org.apache.kafka.connect.data"
CENTS = Kind(f"{CONNECT}.Decimal", {"scale": "2"})


@pytest.mark.parametrize(
    ("value", "kind", "declared", "expected"),
    [
        (None, Kind(f"{TIME}.Date"), "DATE", None),
        (19724, Kind(f"{TIME}.Date"), "DATE", "2024-01-02"),
        (-1, Kind(f"{TIME}.Date"), "DATE", "1969-12-31"),
        (19724, Kind(f"{TIME}.Date"), "INT", 19724),
        (2147483647, Kind(f"{TIME}.Date"), "DATE", "2147483647 days since 1970"),
        (1704164645678, Kind(f"{TIME}.Timestamp"), "TIMESTAMP", "2024-01-02 03:04:05.678000"),
        (-500, Kind(f"{TIME}.Timestamp"), "TIMESTAMP", "1969-12-31 23:59:59.500000"),
        (1704164645678901, Kind(f"{TIME}.MicroTimestamp"), "TIMESTAMP_NTZ", "2024-01-02 03:04:05.678901"),
        (1704164645678901234, Kind(f"{TIME}.NanoTimestamp"), "STRING", "2024-01-02 03:04:05.678901234"),
        (1704164645678901, Kind(f"{TIME}.MicroTimestamp"), "BIGINT", 1704164645678901),
        (9223372036825200000, Kind(f"{TIME}.MicroTimestamp"), "TIMESTAMP", "9223372036825200000/1000000 s since 1970"),
        ("2024-01-02T01:04:05Z", Kind(f"{TIME}.ZonedTimestamp"), "TIMESTAMP", "2024-01-02T01:04:05Z"),
        (11045000001, Kind(f"{TIME}.MicroTime"), "STRING", "03:04:05.000001"),
        (86400000000, Kind(f"{TIME}.MicroTime"), "STRING", "24:00:00.000000"),
        (-3020399000000, Kind(f"{TIME}.MicroTime"), "STRING", "-838:59:59.000000"),
        (86400000, Kind(f"{TIME}.Time"), "STRING", "24:00:00.000000"),
        ("BM4=", CENTS, "DECIMAL(10,2)", "12.30"),
        ("+w==", CENTS, "DECIMAL(10,2)", "-0.05"),
        (b"\x04\xce", CENTS, "DECIMAL(10,2)", "12.30"),
        (Decimal("12.30"), CENTS, "DECIMAL(10,2)", Decimal("12.30")),
        ({"scale": 4, "value": "EtaH"}, Kind(f"{TIME}.VariableScaleDecimal"), "DECIMAL(10,4)", "123.4567"),
        ([19724, None], Kind(items=Kind(f"{TIME}.Date")), "ARRAY<DATE>", ["2024-01-02", None]),
        ([Decimal("1.5"), None], None, "ARRAY<DOUBLE>", [1.5, None]),
        (True, Kind(), "BOOLEAN", True),
        ("x", Kind(), "STRING", "x"),
        # Without a schema.
        (19724, None, "DATE", "2024-01-02"),
        (7, None, "INT", 7),
        ("2024-01-02T01:04:05Z", None, "TIMESTAMP", "2024-01-02T01:04:05Z"),
        (1704164645678, None, "TIMESTAMP", "a time whose unit only a schema says"),
        ("1234", None, "DECIMAL(10,2)", "may be text or the bytes of a decimal"),
    ],
)
def test_a_value(value: Any, kind: Kind | None, declared: str, expected: Any) -> None:
    try:
        found = as_text("x", value, kind, declared, "schema")
    except UndecodableError as error:
        assert kind is None and expected in str(error)
    else:
        assert found == expected


def test_times_that_are_none_of_a_day() -> None:
    """Neither PostgreSQL's last moment nor MySQL's 838 hours begin again at midnight."""
    times = [as_text("x", hours * 3600_000, Kind(f"{TIME}.Time"), "STRING", "schema") for hours in (0, 24, -838)]
    assert times == ["00:00:00.000000", "24:00:00.000000", "-838:00:00.000000"]
    handled("Debezium", "a time of 24:00:00 (PostgreSQL), or negative, or over a day (MySQL)", "as it is")


def test_decimals_that_are_declared_to_be_text() -> None:
    assert as_text("x", "12.30", None, "DECIMAL(10,2)", "text") == "12.30"


def test_bytes_that_are_none() -> None:
    with pytest.raises(UndecodableError, match="no bytes of a decimal in column 'x'"):
        as_text("x", "12.3", CENTS, "DECIMAL(10,2)", "schema")
