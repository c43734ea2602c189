"""Keys as they are typed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from rivermeet.assets.why.keys import KeyTextError, parse_key

ONE = pa.struct([("tail", pa.string())])
NUMBER = pa.struct([("id", pa.int64())])
MANY = pa.struct([("carrier", pa.string()), ("flight", pa.int32()), ("day", pa.date32())])
HOUR = pa.struct([("hour", pa.timestamp("us", "UTC"))])


@pytest.mark.parametrize(
    ("text", "columns", "key"),
    [
        ("N1", ONE, {"tail": "N1"}),
        ("a=b", ONE, {"tail": "a=b"}),
        ("tail=N1", ONE, {"tail": "N1"}),
        ("7", NUMBER, {"id": 7}),
        ("carrier=UA,flight=15,day=2013-01-01", MANY, {"carrier": "UA", "flight": 15, "day": date(2013, 1, 1)}),
        (
            '{"day": "2013-01-01", "flight": 15, "carrier": "U,A"}',
            MANY,
            {"carrier": "U,A", "flight": 15, "day": date(2013, 1, 1)},
        ),
        ("2013-01-01T05:00:00", HOUR, {"hour": datetime(2013, 1, 1, 5, tzinfo=UTC)}),
        ("2013-01-01 05:00:00Z", HOUR, {"hour": datetime(2013, 1, 1, 5, tzinfo=UTC)}),
    ],
)
def test_a_text_is_a_key(text: str, columns: pa.StructType, key: dict[str, Any]) -> None:
    assert parse_key(text, columns, "n") == key


@pytest.mark.parametrize(
    ("text", "columns", "says"),
    [
        ("x", NUMBER, "'x' is no int64, which 'id' of 'n' is"),
        ("carrier=UA", MANY, "give all of carrier (string), flight (int32), day (date32[day]) of 'n'"),
        ("UA", MANY, "'UA' of 'UA' is no column=value; a key of 'n' has carrier, flight, day"),
        ("{", ONE, "'{' is no JSON object"),
    ],
)
def test_what_is_no_key_is_refused(text: str, columns: pa.StructType, says: str) -> None:
    with pytest.raises(KeyTextError) as refused:
        parse_key(text, columns, "n")
    assert says in str(refused.value)
