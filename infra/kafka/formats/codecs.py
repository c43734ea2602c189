"""Decodes payloads of Avro, Protobuf and Java's numbers to text, which Spark casts like text of files; encodes values.

| format | payload | text |
|---|---|---|
| Avro | ``00 00000007 02 61 18`` | ``{"id": "a", "n": 12}``, by the writer's schema 7 |
| Protobuf | ``0a 01 61`` | ``{"id": "a"}``, by the writer's descriptor |
| Number("INT") | ``ff ff ff fe`` | ``-2`` |
| JSON, Text, Raw | any | none: Spark reads the bytes themselves |

So schema evolution follows the rules of files: an absent field is null, a field of another type is cast, and a
record that does not fit is a dead letter with the same reason as a line of a file.

Values of a sink or a feed are encoded in its format: JSON bare, Avro and Protobuf behind the id of their schema.

    JSON()                    {"n": 1}                      7b 22 6e 22 3a 20 31 7d
    Avro()                    the same, schema 7            00 00000007 02 02
    Protobuf(message="s.T")   the same, schema 8            00 00000008 00 08 01

This is Confluent's wire format, which its deserializers and ours read (``infra/kafka/formats/framing.py``). Held by
``tests/infra/sources/kafka/formats/test_formats.py`` and ``tests/infra/sinks/test_registry_values.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from rivermeet.infra.kafka.formats.avro import avro_decode, avro_encoder
from rivermeet.infra.kafka.formats.framing import Decode, Encode, UndecodableError, as_json
from rivermeet.infra.kafka.formats.kind import other_decode
from rivermeet.infra.kafka.formats.protobuf import protobuf_decode, protobuf_encoder
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.pipelines import JSON, Avro, Kafka, Number, Protobuf
from rivermeet.pipelines.reads.kafka import Format, OtherFormat

JAVA = {"SMALLINT": ">h", "INT": ">i", "BIGINT": ">q", "FLOAT": ">f", "DOUBLE": ">d"}
"""Types to their layouts as Java's serializers write them."""


class Decoded(NamedTuple):
    """The text of a payload, or why there is none; both are None of a null."""

    text: str | None = None
    problem: str | None = None


Decoder = Callable[[bytes | None], Any]
"""Returns a `Decoded`, or what a format has in its place, with a ``text`` and a ``problem``."""


def decoder(format: Format | None, place: str, registry: Registry) -> Decoder | None:
    """Create the decoder of a key's or a value's payloads; reasons name that ``place``. None: Spark reads them."""
    if isinstance(format, Avro):
        return guard(avro_decode(format, registry), place)
    if isinstance(format, Protobuf):
        return guard(protobuf_decode(format, registry), place)
    if isinstance(format, OtherFormat):
        return guard(other_decode(format, registry), place)
    return guard(_number(format.type.upper()), place) if isinstance(format, Number) else None


def decoders_of(topic: Kafka, registry: Registry) -> Mapping[str, Decoder | None]:
    """The decoders of a topic's keys and values."""
    return {p: decoder(format, p, registry) for p, format in (("key", topic.key), ("value", topic.value))}


def guard(decode: Callable[[bytes], Any], place: str) -> Decoder:
    """The decoder that gives a null, and the problem of a payload, instead of raising it."""

    def decode_payload(payload: bytes | None) -> Any:
        if payload is None:
            return Decoded()
        try:
            found = decode(payload)
        except UndecodableError as error:
            return Decoded(problem=f"the {place} {error}")
        return Decoded(found) if isinstance(found, str) else found

    return decode_payload


def _number(kind: str) -> Decode:
    layout = JAVA[kind]
    size = struct.calcsize(layout)

    def decode(payload: bytes) -> str:
        if len(payload) != size:
            raise UndecodableError(f"has {len(payload)} bytes, and a {kind} has {size}", type=kind)
        return str(struct.unpack(layout, payload)[0])

    return decode


def value_encoder(
    format: JSON | Avro | Protobuf, topic: str, columns: Iterable[pa.Field], registry: Registry
) -> Encode:
    """Create the encoder of values with these columns, and register their schema.

    Raises `TypeWithoutFormError` if the format cannot represent a column, and `TopicRefusedError` if the registry does
    not accept the schema.
    """
    if isinstance(format, JSON):
        return lambda row: as_json(row).encode()
    if isinstance(format, Avro):
        return avro_encoder(topic, columns, registry)
    return protobuf_encoder(format.message, topic, columns, registry)
