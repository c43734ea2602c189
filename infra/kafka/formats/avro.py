"""Avro payloads as JSON text, decoded with the writer's schema.

| written | text |
|---|---|
| ``{"n": 1}``, a record | ``{"n": 1}`` |
| ``"a"``, and the format declares one column ``id`` | ``{"id": "a"}`` |
| bytes ``ff``, decimal 1.50, the instant of 1 ms | ``"/w=="``, ``"1.50"``, ``"1970-01-01T00:00:00.001000+00:00"`` |
| decimal 1234.56, with a schema of precision 4 | ``"1234.56"``: all written digits |
| with a schema that lacks a field | no such field: it is null |
| with a schema that refers to others of the registry | as if they were part of it |

Held by ``tests/infra/sources/kafka/formats/test_formats.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from io import BytesIO
from typing import Any

from rivermeet.infra.kafka.formats.framing import Decode, UndecodableError, unframe
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.kafka.json_text import as_json
from rivermeet.pipelines import Avro
from rivermeet.pipelines.extras import require

_DECIMAL = "rivermeet-decimal"
"""Logical type that stands for ``decimal`` in schemas to decode by: fastavro's own rounds to the precision."""


def avro_decode(format: Avro, registry: Registry) -> Decode:
    """Create the decoder of payloads of this format."""
    columns, read = tuple(format.schema), avro_reader(format.writer, registry)

    def decode(payload: bytes) -> str:
        found, _ = read(payload)
        if not isinstance(found, dict) and len(columns) != 1:
            raise UndecodableError("is no record by its schema, and several columns are declared")
        return as_json(found if isinstance(found, dict) else {columns[0]: found})

    return decode


def avro_reader(writer: str | None, registry: Registry) -> Callable[[bytes], tuple[Any, Any]]:
    """Create the decoder of payloads, which returns the value and its writer's schema as parsed JSON.

    Parameters
    ----------
    writer
        The schema of bare payloads; None: each begins with its id.
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
            raise UndecodableError(f"is not Avro of its schema: {type(error).__name__}") from None
        if stream.read(1):
            raise UndecodableError("is not Avro of its schema: bytes are left over")
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
        for name, part in registry.referred(described).items():
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
            raise UndecodableError(found)
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
