"""Decodes payloads of Avro, Protobuf and Java's numbers to text, which Spark casts like text of files.

| format | payload | text |
|---|---|---|
| Avro | ``00 00000007 02 61 18`` | ``{"id": "a", "n": 12}``, by the writer's schema 7 |
| Protobuf | ``0a 01 61`` | ``{"id": "a"}``, by the writer's descriptor |
| Number("INT") | ``ff ff ff fe`` | ``-2`` |
| Debezium | ``{"after": {"n": 1}, "op": "c", …}`` | ``{"n": 1, "debezium_op": "c", …}`` |
| JSON, Text, Raw | any | none: Spark reads the bytes themselves |

So schema evolution follows the rules of files: an absent field is null, a field of another type is cast, and a
record that does not fit is a dead letter with the same reason as a line of a file. Held by
``tests/infra/sources/kafka/formats/test_formats.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from rivermeet.infra.kafka.formats.avro import avro_decode
from rivermeet.infra.kafka.formats.framing import Decode, UndecodableError
from rivermeet.infra.kafka.formats.kind import other_decode
from rivermeet.infra.kafka.formats.protobuf import protobuf_decode
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.sources.kafka.debezium.envelope import Envelope, envelope_decode, key_decode
from rivermeet.pipelines import Avro, Debezium, Number, Protobuf
from rivermeet.pipelines.reads.kafka import Format, OtherFormat

JAVA = {"SMALLINT": ">h", "INT": ">i", "BIGINT": ">q", "FLOAT": ">f", "DOUBLE": ">d"}
"""Types to their layouts as Java's serializers write them."""


class Decoded(NamedTuple):
    """The text of a payload, or why there is none; both are None of a null."""

    text: str | None = None
    problem: str | None = None
    envelope: Envelope | None = None


def decoder(format: Format | None, place: str, registry: Registry) -> Callable[[bytes | None], Decoded] | None:
    """Create the decoder of a key's or a value's payloads; reasons name that ``place``. None: Spark reads them."""
    decode = None if format is None else _decode(format, place, registry)
    if decode is None:
        return None

    def decoded(payload: bytes | None) -> Decoded:
        if payload is None:
            return Decoded()
        try:
            found = decode(payload)
            if not isinstance(found, Envelope):
                return Decoded(found)
            return Decoded(found.text, found.problem and f"the {place} {found.problem}", found)
        except UndecodableError as error:
            return Decoded(problem=f"the {place} {error}")

    return decoded


def _decode(format: Format, place: str, registry: Registry) -> Decode | Callable[[bytes], Envelope] | None:
    if isinstance(format, Debezium):
        return envelope_decode(format, registry) if place == "value" else key_decode(format, registry)
    if isinstance(format, Avro):
        return avro_decode(format, registry)
    if isinstance(format, Protobuf):
        return protobuf_decode(format, registry)
    if isinstance(format, OtherFormat):
        return other_decode(format, registry)
    return _number(JAVA[format.type.upper()], format.type.upper()) if isinstance(format, Number) else None


def _number(layout: str, kind: str) -> Decode:
    size = struct.calcsize(layout)

    def decode(payload: bytes) -> str:
        if len(payload) != size:
            raise UndecodableError(f"has {len(payload)} bytes, and a {kind} has {size}")
        return str(struct.unpack(layout, payload)[0])

    return decode
