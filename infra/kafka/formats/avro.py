"""Avro payloads: read as JSON text with the writer's schema, and written with one made from the columns.

| written | text |
|---|---|
| ``{"n": 1}``, a record | ``{"n": 1}`` |
| ``"a"``, and the format declares one column ``id`` | ``{"id": "a"}`` |
| bytes ``ff``, decimal 1.50, the instant of 1 ms | ``"/w=="``, ``"1.50"``, ``"1970-01-01T00:00:00.001000+00:00"`` |
| decimal 1234.56, with a schema of precision 4 | ``"1234.56"``: all written digits |
| with a schema that lacks a field | no such field: it is null |
| with a schema that refers to others of the registry | as if they were part of it |

| column | written as |
|---|---|
| BOOLEAN; TINYINT to INT; BIGINT; FLOAT; DOUBLE; STRING; BINARY | boolean; int; long; float; double; string; bytes |
| DATE; TIMESTAMP; TIMESTAMP_NTZ | int ``date``; long ``timestamp-micros``; long ``local-timestamp-micros`` |
| DECIMAL(p,s) | bytes ``decimal`` |
| ARRAY, MAP with STRING keys, STRUCT | array, map, record |

Every field is nullable with default null, so adding or removing a column is compatible in both directions. Held by
``tests/infra/sources/kafka/formats/test_formats.py`` and ``tests/infra/kafka/test_avro_types.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cache
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from rivermeet.infra.kafka.formats.framing import NAME, Decode, Encode, UndecodableError, as_json, frame, unframe
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.kafka.refusals import TypeWithoutFormError
from rivermeet.pipelines import Avro
from rivermeet.pipelines.extras import require

_DECIMAL = "rivermeet-decimal"
"""Logical type that stands for ``decimal`` in schemas to decode by: fastavro's own rounds to the precision."""
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


def avro_decode(format: Avro, registry: Registry) -> Decode:
    """Create the decoder of payloads of this format."""
    columns, read = tuple(format.schema), avro_reader(format.writer, registry)

    def decode(payload: bytes) -> str:
        found, _ = read(payload)
        if not isinstance(found, dict) and len(columns) != 1:
            raise UndecodableError("is no record by its schema, and several columns are declared", columns=columns)
        return as_json(found if isinstance(found, dict) else {columns[0]: found})

    return decode


def avro_reader(writer: str | None, registry: Registry) -> Callable[[bytes], tuple[Any, Any]]:
    """Create the decoder of payloads, which returns the value and its writer's schema as parsed JSON.

    ``writer`` is the schema of bare payloads; None: each begins with its id.
    """
    require("fastavro")
    from fastavro import parse_schema, schemaless_reader
    from fastavro.read import LOGICAL_READERS
    from fastavro.schema import UnknownType

    LOGICAL_READERS |= {f"{kind}-{_DECIMAL}": _decimal for kind in ("bytes", "fixed")}

    def value(body: bytes, writer: Any) -> Any:
        stream = BytesIO(body)
        try:
            # fastavro raises errors of many kinds for bytes that do not match the schema.
            found = schemaless_reader(stream, writer, None)
        except Exception as error:
            raise UndecodableError(f"is not Avro of its schema: {type(error).__name__}", format="avro") from None
        if stream.read(1):
            raise UndecodableError("is not Avro of its schema: bytes are left over", format="avro")
        return found

    if writer is not None:
        own = json.loads(writer)
        parsed = parse_schema(_exact(own))
        return lambda payload: (value(payload, parsed), own)

    @cache
    def writer_of(id: int) -> Any:
        described = registry.schema(id)
        if described is None:
            return f"has schema {id}, which the registry does not have"
        if described.get("schemaType", "AVRO") != "AVRO":
            return f"has schema {id}, which is of {described['schemaType']} and not of Avro"
        named: dict[str, Any] = {}
        for name, part in registry.read_references(described).items():
            if part is None:
                return f"has schema {id}, which refers to '{name}', and the registry does not have that"
            parse_schema(_exact(json.loads(part["schema"])), named_schemas=named)
        try:
            own = json.loads(described["schema"])
            return parse_schema(_exact(own), named_schemas=named), own
        except UnknownType as error:
            return f"has schema {id}, which has the type {error.name}, and refers to no schema of it"
        except ValueError:
            return f"has schema {id}, which is no schema of Avro"

    def read(payload: bytes) -> tuple[Any, Any]:
        id, body = unframe(payload)
        found = writer_of(id)
        if isinstance(found, str):
            raise UndecodableError(found, schema=id)
        return value(body, found[0]), found[1]

    return read


def _exact(schema: Any) -> Any:
    """The schema, with decimals that keep all digits."""
    if isinstance(schema, list):
        return [_exact(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    # A default value is not a part of the schema.
    parts = {name: _exact(part) if name != "default" else part for name, part in schema.items()}
    return parts | ({"logicalType": _DECIMAL} if schema.get("logicalType") == "decimal" else {})


def _decimal(unscaled: bytes, schema: Any, *_: Any) -> Decimal:
    return Decimal(f"{int.from_bytes(unscaled, 'big', signed=True)}E-{schema.get('scale', 0)}")


def avro_encoder(topic: str, columns: Iterable[pa.Field], registry: Registry) -> Encode:
    """Create the encoder of values with these columns; it registers their schema."""
    require("fastavro")
    from fastavro import parse_schema, schemaless_writer

    # A topic's name may contain characters that are invalid in Avro names.
    name = "".join(letter if NAME.fullmatch(f"_{letter}") else "_" for letter in topic)
    schema = avro_schema(name if NAME.fullmatch(name) else f"_{name}", columns)
    head, parsed = frame(registry.register(f"{topic}-value", json.dumps(schema), "AVRO")), parse_schema(schema)

    def encode(row: Mapping[str, Any]) -> bytes:
        body = BytesIO()
        schemaless_writer(body, parsed, row)
        return head + body.getvalue()

    return encode


def avro_schema(name: str, columns: Iterable[pa.Field]) -> dict[str, Any]:
    """The schema of a record with these columns; raises `TypeWithoutFormError` if Avro has none."""
    return {"type": "record", "name": name, "fields": [_field(name, column) for column in columns]}


def _field(record: str, column: pa.Field) -> dict[str, Any]:
    if not NAME.fullmatch(column.name):
        raise TypeWithoutFormError(
            f"column {column.name!r} is no name in Avro (letters, digits and _)", column=column.name
        )
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
    raise TypeWithoutFormError(f"column {name!r} is of type {kind}, which Avro has no form for", column=name)
