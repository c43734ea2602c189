"""Encodes values in the format of a sink or a feed: JSON bare, Avro and Protobuf behind the id of their schema.

    JSON()                    {"n": 1}                      7b 22 6e 22 3a 20 31 7d
    Avro()                    the same, schema 7            00 00000007 02 02
    Protobuf(message="s.T")   the same, schema 8            00 00000008 00 08 01

This is Confluent's wire format, which its deserializers and ours read (``infra/kafka/formats/framing.py``). Held by
``tests/infra/sinks/test_registry_values.py``.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from rivermeet.infra.kafka.formats.avro import avro_encoder
from rivermeet.infra.kafka.formats.framing import Encode
from rivermeet.infra.kafka.formats.protobuf import protobuf_encoder
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.kafka.json_text import as_json
from rivermeet.pipelines import JSON, Avro, Protobuf


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
