"""Converts values of an envelope to text that Spark casts, by the semantic type in their schema.

| semantic type | value | declared | text |
|---|---|---|---|
| ``io.debezium.time.Date`` | 19724 | DATE | ``2024-01-02`` |
| ``io.debezium.time.MicroTimestamp`` | 1704164645678901 | TIMESTAMP | ``2024-01-02 03:04:05.678901`` |
| ``io.debezium.time.MicroTimestamp`` | 1704164645678901 | BIGINT | ``1704164645678901``: a number is declared |
| ``org.apache.kafka.connect.data.Decimal``, scale 2 | ``BM4=`` | DECIMAL(10,2) | ``12.30`` |
| ``io.debezium.time.MicroTime`` | 86400000000 | STRING | ``24:00:00.000000``, which is not the day's first moment |
| no schema | 19724 | DATE | ``2024-01-02``: a date is in days |
| no schema | 1704164645678 | TIMESTAMP | none: the unit may be ms or us |
| no schema | ``BM4=`` | DECIMAL(10,2) | none: it may be text, or a decimal's bytes |

A time without a zone is written as if in UTC; ``time_zone=`` of the source gives its zone. Source: Debezium's
documentation of its PostgreSQL connector, "Data type mappings".

A value that was not sent has a marker in its place, in each type of column:

| PostgreSQL | the marker ``n/a`` is |
|---|---|
| text, varchar, json, jsonb, xml, citext, ltree, numeric as text, ``bytea`` as hex | ``"n/a"`` |
| bytea | the marker's bytes: ``"bi9h"`` in JSON, which has base64 |
| text[], varchar[], json[], jsonb[] | ``["n/a"]`` |
| bytea[] | ``["bi9h"]`` |
| int[], bigint[], date[] | ``[110, 47, 97]``: its bytes, each a number with a sign |
| uuid[] | ``["274b6819-2b05-3e26-8f12-8ff63bfcd4a4"]``: Java's name-based UUID of its bytes |
| hstore | ``{"n/a": "n/a"}``, or that as text |
| smallint[], numeric[], real[], float8[], boolean[], timestamp[], timestamptz[] | null, as NULL is |
| bytea and bytea[] as base64 by `binary.handling.mode` | null |

The connector's `unavailable.value.placeholder` is the marker; behind ``hex:`` it is written as bytes. Source:
Debezium 3.6.3's UnchangedToastedPlaceholder, and what it wrote of each type
(``tests/infra/sources/debezium/unsent.jsonl``). Held by
``tests/infra/sources/debezium/test_values.py`` and ``tests/infra/sources/debezium/test_unavailable.py``.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import md5
from typing import Any
from uuid import UUID

from rivermeet.infra.kafka.formats.framing import UndecodableError

_DEBEZIUM, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_DATES = (f"{_DEBEZIUM}Date", f"{_CONNECT}Date")
_MOMENTS = {
    f"{_DEBEZIUM}Timestamp": 1000,
    f"{_DEBEZIUM}MicroTimestamp": 1_000_000,
    f"{_DEBEZIUM}NanoTimestamp": 1_000_000_000,
    f"{_CONNECT}Timestamp": 1000,
}
"""Semantic types to parts of a second."""
_CLOCKS = {
    f"{_DEBEZIUM}Time": 1000,
    f"{_DEBEZIUM}MicroTime": 1_000_000,
    f"{_DEBEZIUM}NanoTime": 1_000_000_000,
    f"{_CONNECT}Time": 1000,
}
_DECIMAL = f"{_CONNECT}Decimal"
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "LONG")
_FLOATS = ("FLOAT", "REAL", "DOUBLE")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Kind:
    """The semantic type of a value, with its parameters; ``items`` is that of an array's elements.

    ``type`` is the encoding, as named by the schema.
    """

    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    items: Kind | None = None
    type: str = ""


def as_text(column: str, value: Any, kind: Kind | None, declared: str, decimals: str) -> Any:
    """A value in JSON, such that Spark's cast to the declared type gives the value of the database.

    ``kind`` is None without a schema: then an ambiguous value is an UndecodableError. ``decimals`` is as in `Debezium`.
    """
    wanted = declared.upper()
    if value is None:
        return None
    if isinstance(value, list):
        inner = wanted.removeprefix("ARRAY<").removesuffix(">")
        items = None if kind is None else kind.items or Kind()
        return [as_text(column, each, items, inner, decimals) for each in value]
    if isinstance(value, dict) and set(value) == {"scale", "value"}:
        return _decimal(column, value["value"], int(value["scale"]))
    if isinstance(value, Decimal) and wanted in _FLOATS:
        # Spark casts the text of a number, but in an array it requires a number.
        return float(value)
    if isinstance(value, Decimal | datetime):
        return value
    if kind is None:
        return _by_declaration(column, value, wanted, decimals)
    if kind.name == _DECIMAL and not isinstance(value, int | float):
        return _decimal(column, value, int(kind.parameters["scale"]))
    if wanted in _NUMBERS or not isinstance(value, int) or isinstance(value, bool):
        return value
    if kind.name in _DATES:
        return _day(value)
    if kind.name in _MOMENTS:
        return _moment(value, _MOMENTS[kind.name])
    if kind.name in _CLOCKS:
        return _clock(value, _CLOCKS[kind.name])
    return value


def _by_declaration(column: str, value: Any, wanted: str, decimals: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        if wanted == "DATE":
            return _day(value)
        if wanted.startswith("TIMESTAMP"):
            raise UndecodableError(
                f"has {value} in column '{column}', a time whose unit only a schema says: let the connector write "
                "schemas, or declare BIGINT",
                column=column,
            )
    if isinstance(value, str) and wanted.startswith(("DECIMAL", "NUMERIC")) and decimals != "text":
        raise UndecodableError(
            f"has '{value[:100]}' in column '{column}', which may be text or the bytes of a decimal: let the connector "
            'write schemas, or declare decimals="text" where it has decimal.handling.mode=string',
            column=column,
        )
    return value


def _decimal(column: str, value: Any, scale: int) -> Any:
    if isinstance(value, str):
        try:
            value = base64.b64decode(value, validate=True)
        except binascii.Error:
            raise UndecodableError(f"has no bytes of a decimal in column '{column}'", column=column) from None
    digits = str(abs(number := int.from_bytes(value, "big", signed=True)))
    return str(Decimal((number < 0, tuple(map(int, digits)), -scale)))


def _day(days: int) -> str:
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        # Infinity, and dates outside Python's range: no cast accepts them, so they are dead letters.
        return f"{days} days since 1970"


def _clock(value: int, parts: int) -> str:
    """A time as databases print it: PostgreSQL's go up to 24:00:00, MySQL's can be negative and exceed a day."""
    seconds, micros = divmod(abs(value) * 1_000_000 // parts, 1_000_000)
    sign = "-" if value < 0 else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micros:06d}"


def _moment(value: int, parts: int) -> str:
    micros, rest = divmod(value * 1_000_000, parts)
    try:
        whole = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return f"{value}/{parts} s since 1970"
    # Digits beyond microseconds are kept, so that the value is text, or a dead letter.
    more = f"{rest * 1000 // parts:03d}" if rest else ""
    return whole.replace(tzinfo=None).isoformat(" ", "microseconds") + more


DOUBTFUL = "?"
"""Prefix of a column's name in ``debezium_absent`` whose null may be a value that was not sent."""
_MARKED = ("STRING", "INT", "INTEGER", "BIGINT", "LONG", "DATE")
"""Types of elements of arrays that have a marker."""


def absence(marker: str) -> Callable[[Any], bool]:
    """Create the test for whether a value is ``marker``, the connector's `unavailable.value.placeholder`.

    Examples
    --------
    >>> is_absent = absence("n/a")
    >>> is_absent("n/a"), is_absent([110, 47, 97]), is_absent({"n/a": "n/a"}), is_absent("n")
    (True, True, True, False)
    """
    own = bytes.fromhex(marker[4:]) if marker.startswith("hex:") else marker.encode()
    text, in_json = own.decode("utf-8", "replace"), base64.b64encode(own).decode()
    named = str(UUID(bytes=md5(own, usedforsecurity=False).digest(), version=3))
    texts = {text, in_json, json.dumps({text: text}, ensure_ascii=False, separators=(",", ":"))}
    numbers = [byte - 256 if byte > 127 else byte for byte in own]
    lists = ([text], [in_json], [own], [named], [UUID(named)], numbers)

    def is_absent(value: Any) -> bool:
        if isinstance(value, str):
            return value in texts
        if isinstance(value, bytes):
            return value == own
        if isinstance(value, list):
            return value in lists
        return isinstance(value, dict) and value == {text: text}

    return is_absent


def may_be_absent(declared: str, written: str | None) -> bool:
    """Whether null in an update's column of this type may be a value that was not sent.

    ``written`` is the type of the column in the envelope's schema; None without a schema.

    Examples
    --------
    >>> may_be_absent("ARRAY<DOUBLE>", None), may_be_absent("ARRAY<INT>", None), may_be_absent("DOUBLE", None)
    (True, False, False)
    >>> may_be_absent("BINARY", "bytes"), may_be_absent("BINARY", "string"), may_be_absent("BINARY", None)
    (False, True, True)
    """
    kind = "".join(declared.upper().split())
    if kind == "BINARY":
        return written in (None, "string")
    return kind.startswith("ARRAY<") and kind.removeprefix("ARRAY<").removesuffix(">") not in _MARKED
