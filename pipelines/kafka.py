"""A Kafka topic as a source, and the formats of its keys and values.

    Kafka("orders", key=Text("id"), value=JSON({"amount": "DOUBLE"}))

    key    value             columns of the record
    a      {"amount": 1.5}   id a, amount 1.5, kafka_partition 0, kafka_offset 7, kafka_timestamp 1000, …
    a      {"amount": "x"}   none: a dead letter, for 'x' is not DOUBLE
    a      no value          id a, amount NULL, kafka_tombstone true: a tombstone
    none   {"amount": 2}     id NULL: a dead letter, for a key must be there

A format names the columns that it decodes to, with their Spark SQL types. Where the broker and the schema registry are,
and how to log in there, is in settings alone (``infra/settings.py``). Held by ``tests/pipelines/test_kafka.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

FIELDS: Mapping[str, str] = {
    "kafka_timestamp": "BIGINT",
    "kafka_partition": "INT",
    "kafka_offset": "BIGINT",
    "kafka_tombstone": "BOOLEAN",
}
"""Columns that each record of a topic has besides those of its key and value; times in epoch millis."""
HEADERS: Mapping[str, str] = {"kafka_headers": "ARRAY<STRUCT<key:STRING,value:BINARY>>"}
"""The column that ``headers=True`` adds."""
NUMBERS = ("SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""Names that topics can have."""
MESSAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
"""Full names of messages of Protobuf."""


@dataclass(frozen=True)
class JSON:
    """One JSON object a payload, also behind the header of a schema registry.

    Attributes
    ----------
    schema
        Field to Spark SQL type. A payload may have more fields. What is written has the columns of its node.
    """

    schema: Mapping[str, str] = field(default_factory=dict)

    def columns(self, place: str) -> Mapping[str, str]:
        """Decoded columns with their types; ``place`` is ``key`` or ``value``."""
        return self.schema


@dataclass(frozen=True)
class Avro:
    """Avro, decoded with the writer's schema.

    Attributes
    ----------
    schema
        Field to Spark SQL type. A writer's schema may have more fields, and lack some: those are null. What is written
        has the columns of its node.
    writer
        The writer's schema as JSON text, of bare payloads. None: it is in the schema registry, and each payload begins
        with its id.
    """

    schema: Mapping[str, str] = field(default_factory=dict)
    writer: str | None = None

    def columns(self, place: str) -> Mapping[str, str]:
        """Decoded columns with their types; ``place`` is ``key`` or ``value``."""
        return self.schema


@dataclass(frozen=True)
class Protobuf:
    """Protocol Buffers, decoded with the writer's descriptor.

    Attributes
    ----------
    schema
        Field to Spark SQL type. A message may have more fields. What is written has the columns of its node.
    message
        Full name of the message, such as ``shop.Order``.
    descriptor
        A file descriptor set (``protoc --descriptor_set_out --include_imports``) in base64, of bare payloads. None: it
        is in the schema registry, and each payload begins with its id.
    """

    schema: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    descriptor: str | None = None

    def __post_init__(self) -> None:
        if not MESSAGE.fullmatch(self.message):
            raise ValueError(f"message {self.message!r}: give the full name of a message, such as shop.Order")

    def columns(self, place: str) -> Mapping[str, str]:
        """Decoded columns with their types; ``place`` is ``key`` or ``value``."""
        return self.schema


@dataclass(frozen=True)
class Text:
    """UTF-8 text, as one column: ``column``, or else ``key`` or ``value``."""

    column: str | None = None

    def columns(self, place: str) -> Mapping[str, str]:
        """The column with its type; ``place`` is ``key`` or ``value``."""
        return {self.column or place: "STRING"}


@dataclass(frozen=True)
class Number:
    """A number as Kafka's Java serializers write it: SMALLINT, INT, BIGINT, FLOAT or DOUBLE; one column, as of `Text`.

    Examples
    --------
    >>> Number("bigint", "id").columns("key")
    {'id': 'BIGINT'}
    """

    type: str
    column: str | None = None

    def __post_init__(self) -> None:
        if self.type.upper() not in NUMBERS:
            raise ValueError(f"number type {self.type!r} is not one of {', '.join(NUMBERS)}")

    def columns(self, place: str) -> Mapping[str, str]:
        """The column with its type; ``place`` is ``key`` or ``value``."""
        return {self.column or place: self.type.upper()}


@dataclass(frozen=True)
class Raw:
    """The bytes as they are, as one column: ``column``, or else ``key`` or ``value``."""

    column: str | None = None

    def columns(self, place: str) -> Mapping[str, str]:
        """The column with its type; ``place`` is ``key`` or ``value``."""
        return {self.column or place: "BINARY"}


Format = JSON | Avro | Protobuf | Text | Number | Raw
"""How a key or a value is encoded."""


@dataclass(frozen=True)
class Kafka:
    """A topic, of which each record is consumed once, in the order of its partition.

    Attributes
    ----------
    topic
        Its name.
    value, key
        Their formats. Without one for the key, keys are not decoded.
    headers
        Whether records have the column ``kafka_headers``: an array of ``key`` (text) and ``value`` (bytes).
    """

    topic: str
    value: Format
    key: Format | None = None
    headers: bool = False

    def __post_init__(self) -> None:
        if not TOPIC.fullmatch(self.topic):
            raise ValueError(f"topic {self.topic!r}: a name is letters, digits, '.', '_' and '-'")
        for place, format in (("key", self.key), ("value", self.value)):
            if format is not None and not isinstance(format, get_args(Format)):
                raise ValueError(f"{place}={format!r} is no format; give JSON, Avro, Protobuf, Text, Number or Raw")
            if format is not None and not format.columns(place):
                raise ValueError(f"the {place} of topic {self.topic!r} has no columns; give names and Spark types")
        names = [*self.key_columns, *self.value_columns, *FIELDS, *HEADERS]
        twice = next((name for name in names if [n.lower() for n in names].count(name.lower()) > 1), None)
        if twice is not None:
            raise ValueError(
                f"topic {self.topic!r} has two columns {twice!r}; leave one out of its schema, or name it otherwise"
            )

    @property
    def key_columns(self) -> Mapping[str, str]:
        """Columns that the key is decoded to."""
        return {} if self.key is None else self.key.columns("key")

    @property
    def value_columns(self) -> Mapping[str, str]:
        """Columns that the value is decoded to."""
        return self.value.columns("value")

    @property
    def schema(self) -> Mapping[str, str]:
        """All columns that expressions may use."""
        return {**self.key_columns, **self.value_columns, **FIELDS, **(HEADERS if self.headers else {})}
