"""Encodes values in the format of a sink or a feed: JSON bare, Avro and Protobuf behind the id of their schema.

    JSON()                    {"n": 1}                      7b 22 6e 22 3a 20 31 7d
    Avro()                    the same, schema 7            00 00000007 02 02
    Protobuf(message="s.T")   the same, schema 8            00 00000008 00 08 01

This is Confluent's wire format, which its deserializers and ours read (``infra/kafka/formats/framing.py``).
The 0 in front of Protobuf's body names the first message of the schema. Held by
``tests/infra/sinks/test_registry_values.py``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa

from rivermeet.infra.kafka.avro_types import NAME, avro_schema
from rivermeet.infra.kafka.formats.framing import MAGIC
from rivermeet.infra.kafka.formats.protobuf import message_class
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.kafka.json_text import as_json
from rivermeet.infra.kafka.protobuf_types import fill_message, protobuf_file
from rivermeet.infra.kafka.written_schemas import register_schema
from rivermeet.pipelines import JSON, Avro, Protobuf
from rivermeet.pipelines.extras import require

Encode = Callable[[Mapping[str, Any]], bytes]
"""Returns the bytes of a row."""


def value_encoder(
    format: JSON | Avro | Protobuf, topic: str, columns: Iterable[pa.Field], registry: Registry
) -> Encode:
    """Create the encoder of values with these columns, and register their schema.

    Raises
    ------
    TypeWithoutFormError
        If the format cannot represent a column.
    TopicRefusedError
        If the registry does not accept the schema.
    """
    if isinstance(format, JSON):
        return lambda row: as_json(row).encode()
    subject = f"{topic}-value"
    if isinstance(format, Avro):
        return _avro(topic, columns, lambda schema: register_schema(registry, subject, schema, "AVRO"))
    file = protobuf_file(format.message, columns)
    # The descriptor itself, in base64: registries accept it as well as text, and not all of them can derive it from
    # text.
    described = base64.b64encode(file.SerializeToString(deterministic=True)).decode()
    id = register_schema(registry, subject, described, "PROTOBUF")
    made, head = message_class([file], format.message), MAGIC + id.to_bytes(4, "big") + b"\x00"
    return lambda row: head + fill_message(made(), row).SerializeToString(deterministic=True)


def _avro(topic: str, columns: Iterable[pa.Field], register: Callable[[str], int]) -> Encode:
    require("fastavro")
    from fastavro import parse_schema, schemaless_writer

    # A topic's name may contain characters that are invalid in Avro names.
    name = "".join(letter if NAME.fullmatch(f"_{letter}") else "_" for letter in topic)
    schema = avro_schema(name if NAME.fullmatch(name) else f"_{name}", columns)
    head = MAGIC + register(json.dumps(schema)).to_bytes(4, "big")
    parsed = parse_schema(schema)

    def encode(row: Mapping[str, Any]) -> bytes:
        body = BytesIO()
        schemaless_writer(body, parsed, row)
        return head + body.getvalue()

    return encode
