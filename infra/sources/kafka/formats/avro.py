"""Avro payloads as JSON text, by the schema that they were written with.

| written | text |
|---|---|
| ``{"n": 1}``, a record | ``{"n": 1}`` |
| ``"a"``, and the format declares one column ``id`` | ``{"id": "a"}`` |
| bytes ``ff``, decimal 1.50, the instant of 1 ms | ``"/w=="``, ``"1.50"``, ``"1970-01-01T00:00:00.001000+00:00"`` |
| by a schema with a field less | no such field: it is null |
| by a schema that refers to others of the registry | as if they stood in it |

Held by ``tests/infra/sources/kafka/formats/test_formats.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any

from infra.kafka.json_text import as_json
from infra.sources.kafka.formats.framing import Decode, UndecodableError, framed
from infra.sources.kafka.formats.registry import Registry
from pipelines import Avro


def avro_decode(format: Avro, registry: Registry) -> Decode:
    """What gives the text of payloads of this format."""
    columns, read = tuple(format.schema), avro_reader(format.writer, registry)

    def decode(payload: bytes) -> str:
        found, _ = read(payload)
        if not isinstance(found, dict) and len(columns) != 1:
            raise UndecodableError("is no record by its schema, and several columns are declared")
        return as_json(found if isinstance(found, dict) else {columns[0]: found})

    return decode


def avro_reader(writer: str | None, registry: Registry) -> Callable[[bytes], tuple[Any, Any]]:
    """What gives the value of payloads, and the schema that it was written with, as it stands in its JSON.

    Parameters
    ----------
    writer
        The schema of bare payloads; None: each begins with its id.
    """
    from fastavro import parse_schema, schemaless_reader
    from fastavro.schema import UnknownType

    def value(body: bytes, writer: Any) -> Any:
        stream = BytesIO(body)
        try:
            # fastavro says with errors of all kinds that bytes are not of the schema.
            found = schemaless_reader(stream, writer, None)
        except Exception as error:
            raise UndecodableError(f"is not Avro of its schema: {type(error).__name__}") from None
        if stream.read(1):
            raise UndecodableError("is not Avro of its schema: bytes are left over")
        return found

    if writer is not None:
        own = json.loads(writer)
        parsed = parse_schema(own)
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
            parse_schema(json.loads(part["schema"]), named_schemas=named)
        try:
            own = json.loads(described["schema"])
            return parse_schema(own, named_schemas=named), own
        except UnknownType as error:
            return f"has schema {id}, which has the type {error.name}, and refers to no schema of it"
        except ValueError:
            return f"has schema {id}, which is no schema of Avro"

    def read(payload: bytes) -> tuple[Any, Any]:
        id, body = framed(payload)
        found = writer_of(id)
        if isinstance(found, str):
            raise UndecodableError(found)
        return value(body, found[0]), found[1]

    return read
