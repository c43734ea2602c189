"""Landed records as rows of a source: declared columns with their types, or why a record has none.

    key a, value {"n": 12}, n INT        typed: id a, n 12, kafka_offset 7; from here on like a row of a file
    key a, value {"n": "x"}              malformed: column 'n': 'x' is not INT
    key a, value [1]                     malformed: the value is not one JSON object with fields of the declared types
    key ff, value {"n": 12}              malformed: the key is not UTF-8 text

In a record's dead letter, ``file`` is TOPIC/PARTITION, ``line`` the offset, ``text`` the bytes of key, value and
headers in base64, and ``header`` their origin, with the ids of their schemas. Held by
``tests/infra/sources/kafka/formats/test_formats.py`` and ``tests/infra/sources/kafka/test_bad_records.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rivermeet.infra.kafka.formats.framing import HEADER
from rivermeet.infra.sources.declared_types import declare, no_text
from rivermeet.infra.sources.files.json import json_field, not_one_object, parse_json_text
from rivermeet.pipelines import JSON, Kafka, Raw, Text
from rivermeet.pipelines.reads.kafka import Format, Objects


def decode_landed(landed: DataFrame, topic: Kafka) -> DataFrame:
    """The result of `as_declared` for landed records."""
    texts = landed.withColumns(
        {
            **_text("key", topic.key),
            **_text("value", topic.value, topic.envelope),
            "file": F.concat(F.lit(f"{topic.topic}/"), F.col("partition")),
            "letter": F.to_json(F.struct("key", "value", "headers")),
            "origin": F.to_json(F.struct("partition", "offset", "timestamp", "key_schema", "value_schema")),
        }
    )
    columns: dict[str, Column] = {}
    problems = [F.col("problem")]
    for place, format in (("key", topic.key), ("value", topic.value)):
        found, problem = _columns(place, format)
        columns |= found
        problems += problem
    columns |= {name: json_field(F.col("value_parsed"), name, kind) for name, kind in topic.envelope.items()}
    columns |= {
        # -1 is Kafka's own value for a record without a timestamp.
        "kafka_timestamp": F.nullif("timestamp", F.lit(-1)),
        "kafka_partition": F.col("partition"),
        "kafka_offset": F.col("offset"),
        "kafka_tombstone": F.isnull("value"),
        "kafka_headers": F.coalesce("headers", F.expr("CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>)")),
    }
    return declare(
        texts,
        topic.schema,
        [columns[name] for name in topic.schema],
        F.coalesce(*problems),
        modified_ms=F.col("timestamp"),
        member=no_text(),
        line=F.col("offset"),
        text=F.col("letter"),
        header=F.col("origin"),
    )


def _text(place: str, format: Format | None, envelope: Mapping[str, str] | None = None) -> dict[str, Column]:
    if isinstance(format, JSON | Text):
        payload = F.col(place)
        if isinstance(format, JSON):
            # No JSON begins with a zero byte: that is the header that a registry's serializer writes.
            named = F.substring(payload, 1, 1) == F.lit(b"\x00")
            payload = F.when(named, F.substring(payload, HEADER + 1, 2**31 - 1)).otherwise(payload)
        made = F.try_validate_utf8(payload.cast("string"))
    else:
        made = F.col(f"{place}_text")
    if not isinstance(format, Objects):
        return {f"{place}_text": made}
    parsed = parse_json_text(made, {**format.schema, **(envelope or {})}, _encodings(format))
    return {f"{place}_text": made, f"{place}_parsed": parsed}


def _encodings(format: Format) -> tuple[str, ...]:
    return () if isinstance(format, JSON) else ("BINARY",)


def _columns(place: str, format: Format | None) -> tuple[dict[str, Column], list[Column]]:
    if format is None:
        return {}, []
    text, problems = F.col(f"{place}_text"), []
    if isinstance(format, JSON | Text):
        problems.append(F.when(F.isnotnull(place) & F.isnull(text), f"the {place} is not UTF-8 text"))
    if not isinstance(format, Objects):
        column = next(iter(format.columns(place)))
        return {column: F.col(place) if isinstance(format, Raw) else text}, problems
    parsed = F.col(f"{place}_parsed")
    wrong = f"the {place} is not one JSON object with fields of the declared types"
    problems.append(F.when(F.isnotnull(text) & not_one_object(parsed), wrong))
    return {
        column: json_field(parsed, column, kind, _encodings(format)) for column, kind in format.schema.items()
    }, problems
