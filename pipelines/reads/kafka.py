"""A Kafka topic as a source, and the formats of its keys and values.

    Kafka("orders", key=Text("id"), value=JSON({"amount": "DOUBLE"}))

    key    value             columns of the record
    a      {"amount": 1.5}   id a, amount 1.5, kafka_partition 0, kafka_offset 7, kafka_timestamp 1000, …
    a      {"amount": "x"}   none: a dead letter, because 'x' is not DOUBLE
    a      no value          id a, amount NULL, kafka_tombstone true: a tombstone
    none   {"amount": 2}     id NULL: a dead letter, because a key is required

A format names the columns that it decodes to, with their Spark SQL types. Addresses and credentials of the broker and
the schema registry are only in settings (``infra/settings.py``). Held by ``tests/pipelines/test_kafka.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from rivermeet.pipelines.errors import OptionError
from rivermeet.pipelines.reads.reads import Reads, refuse_alike

FIELDS: Mapping[str, str] = {
    "kafka_timestamp": "BIGINT",
    "kafka_partition": "INT",
    "kafka_offset": "BIGINT",
    "kafka_tombstone": "BOOLEAN",
}
"""Columns that each record of a topic has besides those of its key and value; times in epoch millis."""
HEADERS: Mapping[str, str] = {"kafka_headers": "ARRAY<STRUCT<key:STRING,value:BINARY>>"}
"""The column that ``headers=True`` adds."""
ENVELOPE: Mapping[str, str] = {
    "debezium_op": "STRING",
    "debezium_ts_ms": "BIGINT",
    "debezium_lsn": "BIGINT",
    "debezium_absent": "ARRAY<STRING>",
}
"""Columns that `Debezium` adds."""
NUMBERS = ("SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""Names that topics can have."""
MESSAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
"""Full names of messages of Protobuf."""


@dataclass(frozen=True)
class _Fields:
    schema: Mapping[str, str] = field(default_factory=dict)

    def columns(self, place: str) -> Mapping[str, str]:
        """Decoded columns with their types; ``place`` is ``key`` or ``value``."""
        return self.schema


@dataclass(frozen=True)
class JSON(_Fields):
    """One JSON object per payload, optionally behind the header of a schema registry.

    Attributes
    ----------
    schema
        Field to Spark SQL type. A payload may have more fields. A written value has the columns of its node.
    """


@dataclass(frozen=True)
class Avro(_Fields):
    """Avro, decoded with the writer's schema.

    Attributes
    ----------
    schema
        Field to Spark SQL type. A writer's schema may have more fields, and lack some: those are null. A written value
        has the columns of its node.
    writer
        The writer's schema as JSON text, of bare payloads. None: it is in the schema registry, and each payload begins
        with its id.
    """

    writer: str | None = None


@dataclass(frozen=True)
class Protobuf(_Fields):
    """Protocol Buffers, decoded with the writer's descriptor.

    Attributes
    ----------
    schema
        Field to Spark SQL type. A message may have more fields. A written value has the columns of its node.
    message
        Full name of the message, such as ``shop.Order``.
    descriptor
        A file descriptor set (``protoc --descriptor_set_out --include_imports``) in base64, of bare payloads. None: it
        is in the schema registry, and each payload begins with its id.
    """

    message: str = ""
    descriptor: str | None = None

    def __post_init__(self) -> None:
        if not MESSAGE.fullmatch(self.message):
            raise OptionError(f"message {self.message!r}: give the full name of a message, such as shop.Order")


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
            raise OptionError(f"number type {self.type!r} is not one of {', '.join(NUMBERS)}")

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


@dataclass(frozen=True)
class Debezium(_Fields):
    """Debezium's envelope of a change of a row, of its PostgreSQL and MySQL connectors; as a key, the row's key.

        {"before": …, "after": {"id": 1, "n": 2}, "source": {"lsn": 7, "ts_ms": 1000, …}, "op": "u", …}

    Inserts, updates and rows of a snapshot are records of what is in ``after``; a delete is a tombstone. Besides its
    own columns a record has ``debezium_op`` (``r``, ``c``, ``u`` or ``d``), ``debezium_ts_ms`` (epoch millis of the
    change in the database), ``debezium_lsn`` (of PostgreSQL) and ``debezium_absent``: columns without a value in the
    record, because a large value (TOAST) was not changed. They keep the value of the key's row. A ``?`` comes before
    columns of a type that has no marker, whose null may be such a value.

    Attributes
    ----------
    schema
        Column to Spark SQL type; leave those of the key to the format of the key.
    encoding
        ``"json"``, with or without schemas, or ``"avro"``, behind the id of a schema in the registry.
    decimals
        How JSON without schemas has decimals: ``"text"`` if the connector has
        ``decimal.handling.mode=string``. ``"schema"``: text is refused, because it may be a decimal's bytes.
    full
        Whether ``before`` is the complete row (``REPLICA IDENTITY FULL``), so that absent values, and
        all columns of a deleted row, are read from it.
    unavailable
        The text that the connector writes in place of an unavailable value, its ``unavailable.value.placeholder``;
        ``hex:6e2f61`` is the bytes ``6e 2f 61``.
    """

    encoding: Literal["json", "avro"] = "json"
    decimals: Literal["schema", "text"] = "schema"
    full: bool = False
    unavailable: str = "__debezium_unavailable_value"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"(?!hex:).+|hex:([0-9A-Fa-f]{2})+", self.unavailable, re.DOTALL):
            raise OptionError(f"unavailable={self.unavailable!r}: give a text, or hex: and an even number of digits")
        if self.encoding not in ("json", "avro"):
            raise OptionError(f"encoding {self.encoding!r} is not one of json, avro")
        if self.decimals not in ("schema", "text"):
            raise OptionError(f"decimals {self.decimals!r} is not one of schema, text")


@dataclass(frozen=True)
class OtherFormat(_Fields):
    """What formats of other packages are declared by: a class of its own below this one.

    Attributes
    ----------
    schema
        Field to Spark SQL type. A payload may have more fields, and lack some: those are null.
    """


Objects = JSON | Avro | Protobuf | Debezium | OtherFormat
"""Formats whose payloads have fields."""
Format = Objects | Text | Number | Raw
"""How a key or a value is encoded."""


@dataclass(frozen=True)
class Kafka(Reads):
    """A topic; each record is consumed once, in the order of its partition.

    Attributes
    ----------
    topic
        Its name.
    value, key
        Their formats. Without one for the key, keys are not decoded.
    headers
        Whether records have the column ``kafka_headers``: an array of ``key`` (text) and ``value`` (bytes).
    """

    clock: ClassVar[str] = "the timestamp that Kafka has of it"
    keeps_partitions: ClassVar[bool] = True
    topic: str
    value: Format
    key: Format | None = None
    headers: bool = False

    def __post_init__(self) -> None:
        if not TOPIC.fullmatch(self.topic):
            raise OptionError(f"topic {self.topic!r}: a name is letters, digits, '.', '_' and '-'")
        for place, format in (("key", self.key), ("value", self.value)):
            if format is not None and not isinstance(format, get_args(Format)):
                raise OptionError(
                    f"{place}={format!r} is no format; give JSON, Avro, Protobuf, Text, Number, Raw, Debezium"
                )
            if format is not None and not format.columns(place):
                raise OptionError(f"the {place} of topic {self.topic!r} has no columns; give names and Spark types")
        names = [*self.key_columns, *self.value_columns, *FIELDS, *HEADERS, *self.envelope]
        refuse_alike(names, f"topic '{self.topic}'")

    @property
    def declaration(self) -> type:
        """`Debezium` if a key or a value is one: a kind of source of its own, which reads by this one."""
        return Debezium if Debezium in (type(self.value), type(self.key)) else type(self)

    @property
    def label(self) -> str:
        """The topic."""
        return f"topic '{self.topic}'"

    def options(self, options: Mapping[str, Any], is_table: bool) -> Mapping[str, Any]:
        """Its own key and time by default; tombstones need not be declared."""
        if "duplicate_files" in options:
            raise OptionError("duplicate_files is of files, and a topic has none; leave it out")
        where, tombstone = options.get("where"), options.get("tombstone")
        gone = "(kafka_tombstone OR debezium_op <=> 'd')" if self.envelope else "kafka_tombstone"
        return {
            "key": list(self.key_columns),
            "timestamp": "kafka_timestamp",
            **options,
            # If the value is null, so is the filter's result: a filter must not prevent the deletion of rows.
            "where": None if where is None else f"coalesce(({where}), {gone})",
            "tombstone": gone if tombstone is None else f"{gone} OR ({tombstone})",
        }

    @property
    def key_columns(self) -> Mapping[str, str]:
        """Columns that the key is decoded to."""
        return {} if self.key is None else self.key.columns("key")

    @property
    def envelope(self) -> Mapping[str, str]:
        """Columns that an envelope around the value adds."""
        return ENVELOPE if isinstance(self.value, Debezium) else {}

    @property
    def value_columns(self) -> Mapping[str, str]:
        """Columns that the value is decoded to."""
        return self.value.columns("value")

    @property
    def schema(self) -> Mapping[str, str]:
        """All columns that expressions may use."""
        columns = {**self.key_columns, **self.value_columns, **FIELDS}
        return {**columns, **(HEADERS if self.headers else {}), **self.envelope}
