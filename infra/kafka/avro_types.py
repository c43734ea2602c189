"""Columns as an Avro schema, from the Arrow schema of a changelog.

| Spark | Avro |
|---|---|
| BOOLEAN; TINYINT to INT; BIGINT; FLOAT; DOUBLE; STRING; BINARY | boolean; int; long; float; double; string; bytes |
| DATE; TIMESTAMP; TIMESTAMP_NTZ | int ``date``; long ``timestamp-micros``; long ``local-timestamp-micros`` |
| DECIMAL(p,s) | bytes ``decimal`` |
| ARRAY, MAP with STRING keys, STRUCT | array, map, record |

Every field is nullable with default null, so adding or removing a column is compatible in both directions. Held by
``tests/infra/kafka/test_avro_types.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from rivermeet.pipelines.errors import RivermeetError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = (
    (types.is_boolean, "boolean"),
    (lambda t: types.is_integer(t) and t.bit_width < 64, "int"),
    (types.is_int64, "long"),
    (types.is_float32, "float"),
    (types.is_float64, "double"),
    (lambda t: types.is_string(t) or types.is_large_string(t), "string"),
    (lambda t: types.is_binary(t) or types.is_large_binary(t), "bytes"),
    (types.is_date32, {"type": "int", "logicalType": "date"}),
)


class TypeWithoutFormError(RivermeetError):
    """A column with a name or type that a format cannot represent; the message names it."""

    remedy = "Leave the column out, cast it, or write JSON."


def avro_schema(name: str, columns: Iterable[pa.Field]) -> dict[str, Any]:
    """The schema of a record with these columns.

    Raises
    ------
    TypeWithoutFormError
        If Avro cannot represent a name or a type.
    """
    return {"type": "record", "name": name, "fields": [_field(name, column) for column in columns]}


def _field(record: str, column: pa.Field) -> dict[str, Any]:
    if not NAME.fullmatch(column.name):
        raise TypeWithoutFormError(f"column {column.name!r} is no name in Avro (letters, digits and _)")
    return {"name": column.name, "type": _nullable(f"{record}_{column.name}", column.type), "default": None}


def _nullable(name: str, kind: pa.DataType) -> list[Any]:
    return ["null", _type(name, kind)]


def _type(name: str, kind: pa.DataType) -> Any:
    plain = next((found for fits, found in _PLAIN if fits(kind)), None)
    if plain is not None:
        return plain
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_struct(kind):
        return avro_schema(name, kind)
    if types.is_list(kind) or types.is_large_list(kind):
        return {"type": "array", "items": _nullable(name, kind.value_type)}
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "map", "values": _nullable(name, kind.item_type)}
    raise TypeWithoutFormError(f"column {name!r} is of type {kind}, which Avro has no form for")
