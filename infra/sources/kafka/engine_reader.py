"""Reads the records of a slice in the engine: Spark's own Kafka source in place of the driver's consumer, same rows.

    RIVERMEET_TOPIC_READER=driver    this process reads, decodes every format, and writes files for the engine
    RIVERMEET_TOPIC_READER=engine    the executors read: for ranges that are too large for one process

The landed records are the same, offset by offset: ``tests/infra/sources/kafka/test_engine_reader.py`` compares both.
There is no decoder of Avro and Protobuf for this version of Spark, so only the driver reads topics in these formats,
and decodes letters again. The jars of the source are added to the session, so a warm or remote engine needs none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from struct import calcsize

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from rivermeet.infra.engine.jars import kafka_source_jars
from rivermeet.infra.kafka.formats.codecs import JAVA
from rivermeet.infra.kafka.formats.framing import HEADER
from rivermeet.infra.settings import Settings, SettingsError
from rivermeet.infra.sources.kafka.landing import SCHEMA
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import JSON, Kafka, Number
from rivermeet.pipelines.reads.kafka import Format, Objects

SETTING = "RIVERMEET_TOPIC_READER"
_BYTES = {kind: calcsize(JAVA[kind]) for kind in ("SMALLINT", "INT", "BIGINT")}
"""Whole numbers that Spark SQL reads from their bytes."""
_JAVA = frozenset({"bootstrap.servers", "security.protocol", "client.id", "client.dns.lookup", "request.timeout.ms"})
"""Properties with the same name in librdkafka and Java's client."""
_LOGIN = frozenset({"sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"})
_PEM = frozenset({"ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password"})
_MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM": "scram.ScramLoginModule"}


def slice_rows(
    settings: Settings, spark: SparkSession, planned: TopicSlice, topic: Kafka, patience: float
) -> DataFrame:
    """The records of a slice, with the columns of ``landing.SCHEMA``; nothing is read yet.

    After ``patience`` seconds without a record, reading fails. What Spark's source does not support is a SettingsError.
    """
    for place, format in (("key", topic.key), ("value", topic.value)):
        _refuse(place, format, topic.topic)
    _with_jars(spark, settings)
    unread = planned.unread
    starts, ends = ({str(p): bounds[i] for p, bounds in unread.items()} for i in (0, 1))
    read = spark.read.format("kafka").options(
        **{f"kafka.{name}": value for name, value in java_properties(settings.kafka).items()},
        **{"kafka.isolation.level": "read_committed", "includeHeaders": "true", "failOnDataLoss": "true"},
        **{"kafkaConsumer.pollTimeoutMs": str(round(patience * 1000))},
        assign=json.dumps({planned.topic: sorted(unread)}),
        startingOffsets=json.dumps({planned.topic: starts}),
        endingOffsets=json.dumps({planned.topic: ends}),
    )
    return as_landed(read.load(), topic, len(planned.ranges))


def as_landed(read: DataFrame, topic: Kafka, partitions: int) -> DataFrame:
    """Spark's rows of a topic with the columns and order of ``landing.SCHEMA``; ``partitions`` of the whole slice."""
    at = F.expr("unix_millis(timestamp)")
    so_far = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, 0)
    made: Mapping[str, Column] = {
        "file_rank": F.lit(0),
        "block": F.max(at).over(so_far),
        "row": F.col("offset") * partitions + F.col("partition"),
        "timestamp": at,
        "key_text": _text("key", topic.key),
        "value_text": _text("value", topic.value),
        "key_schema": _schema("key", topic.key),
        "value_schema": _schema("value", topic.value),
        "problem": F.coalesce(_problem("key", topic.key), _problem("value", topic.value)),
    }
    found = read.select(*[made.get(name, F.col(name)).alias(name) for name in SCHEMA.names])
    types = {"file_rank": "int", "key_schema": "bigint", "value_schema": "bigint"}
    return found.withColumns({name: F.col(name).cast(kind) for name, kind in types.items()})


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties of librdkafka, translated for Java's client.

    Examples
    --------
    >>> java_properties({"bootstrap.servers": "a:9092", "sasl.mechanism": "PLAIN"})
    {'bootstrap.servers': 'a:9092', 'sasl.mechanism': 'PLAIN'}
    """
    unknown = sorted(properties.keys() - _JAVA - _LOGIN - _PEM)
    if unknown:
        variable = f"RIVERMEET_KAFKA_{unknown[0].upper().replace('.', '_')}"
        raise SettingsError(
            f"{variable} is nothing that {SETTING}=engine can give to Spark; unset one of them", variable=variable
        )
    found = {name: properties[name] for name in properties if name in _JAVA}
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")
    if mechanism is not None:
        found["sasl.mechanism"] = mechanism
    if "sasl.username" in properties:
        module = next((name for start, name in _MODULES.items() if (mechanism or "").startswith(start)), None)
        if module is None:
            says = f"SASL mechanism {mechanism} has no login that {SETTING}=engine can give; unset it"
            raise SettingsError(says, variable=SETTING, mechanism=mechanism)
        who = [f'{part}="{_escape(properties.get(f"sasl.{part}", ""))}"' for part in ("username", "password")]
        found["sasl.jaas.config"] = f"org.apache.kafka.common.security.{module} required {' '.join(who)};"
    if "ssl.ca.location" in properties:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(properties["ssl.ca.location"])}
    if "ssl.certificate.location" in properties:
        found["ssl.keystore.type"] = "PEM"
        found["ssl.keystore.certificate.chain"] = _pem(properties["ssl.certificate.location"])
        found["ssl.keystore.key"] = _pem(properties.get("ssl.key.location", ""))
        if "ssl.key.password" in properties:
            found["ssl.key.password"] = properties["ssl.key.password"]
    return found


def _with_jars(spark: SparkSession, settings: Settings) -> None:
    from pyspark.sql.connect.session import SparkSession as Connected

    if not isinstance(spark, Connected):
        # The driver in this process loads jars when it starts, from RIVERMEET_JARS.
        return
    spark.addArtifacts(*map(str, kafka_source_jars(settings)))


def _refuse(place: str, format: Format | None, topic: str) -> None:
    number = format.type.upper() if isinstance(format, Number) else None
    if (isinstance(format, Objects) and not isinstance(format, JSON)) or (number is not None and number not in _BYTES):
        kind = number or type(format).__name__
        raise SettingsError(
            f"{SETTING}=engine decodes JSON, Text, Raw and whole numbers, and the {place} of topic '{topic}' is "
            f"{kind}; unset it, so that the driver reads the topic",
            topic=topic,
        )


def _text(place: str, format: Format | None) -> Column:
    if not isinstance(format, Number):
        return F.lit(None).cast("string")
    size = _BYTES[format.type.upper()]
    # Sixteen digits are read with their sign; with fewer digits, the highest bit is the sign.
    unsigned = F.conv(F.hex(F.col(place)), 16, -10).cast("decimal(20, 0)")
    half, whole = 1 << (8 * size - 1), 1 << (8 * size)
    signed = unsigned if size == 8 else F.when(unsigned >= half, unsigned - whole).otherwise(unsigned)
    return F.when(F.length(place) == size, signed.cast("bigint").cast("string"))


def _problem(place: str, format: Format | None) -> Column:
    if not isinstance(format, Number):
        return F.lit(None).cast("string")
    kind = format.type.upper()
    said = F.concat(F.lit(f"the {place} has "), F.length(place).cast("string"))
    return F.when(F.length(place) != _BYTES[kind], F.concat(said, F.lit(f" bytes, and a {kind} has {_BYTES[kind]}")))


def _schema(place: str, format: Format | None) -> Column:
    if not isinstance(format, JSON):
        return F.lit(None).cast("bigint")
    framed = (F.substring(place, 1, 1) == F.lit(b"\x00")) & (F.length(place) >= HEADER)
    return F.when(framed, F.conv(F.hex(F.substring(place, 2, HEADER - 1)), 16, 10).cast("bigint"))


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _pem(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        says = f"a certificate or key of RIVERMEET_KAFKA_SSL_… cannot be read: {error.strerror}"
        raise SettingsError(says, file=path) from None
