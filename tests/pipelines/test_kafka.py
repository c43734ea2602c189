"""What may be declared of topics, and what is refused when it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from rivermeet.pipelines import (
    JSON,
    Avro,
    Debezium,
    DeclarationError,
    Expr,
    Files,
    JoinWindow,
    Kafka,
    Number,
    Pipeline,
    Protobuf,
    Raw,
    Text,
)
from rivermeet.pipelines.nodes import OF_ITS_TOPIC
from rivermeet.pipelines.reads.kafka import Format

VALUE = JSON({"n": "INT", "at": "BIGINT"})
ORDERS = Kafka("orders", key=Text("id"), value=VALUE)
OWN = {"kafka_timestamp": "BIGINT", "kafka_partition": "INT", "kafka_offset": "BIGINT", "kafka_tombstone": "BOOLEAN"}


@pytest.mark.parametrize(
    ("format", "columns"),
    [
        (JSON({"a": "INT"}), {"a": "INT"}),
        (Avro({"a": "INT"}), {"a": "INT"}),
        (Protobuf({"a": "INT"}, "shop.Order"), {"a": "INT"}),
        (Text(), {"value": "STRING"}),
        (Text("name"), {"name": "STRING"}),
        (Number("bigint"), {"value": "BIGINT"}),
        (Raw(), {"value": "BINARY"}),
    ],
)
def test_columns(format: Format, columns: Mapping[str, str]) -> None:
    assert Kafka("t", value=format).schema == {**columns, **OWN}


def test_defaults_are_those_of_the_record() -> None:
    node = Pipeline("shop").stream("orders", ORDERS)
    source = node.source
    assert source is not None
    assert (node.key, node.value, node.partitions) == ({"id": "STRING"}, ("n", "at"), OF_ITS_TOPIC)
    assert (source.timestamp, source.tombstone, source.where) == ("kafka_timestamp", "kafka_tombstone", None)
    assert (source.topic, source.key) == (ORDERS, {"id": Expr("`id`", "STRING")})
    with pytest.raises(TypeError, match="reads no files"):
        _ = source.files


def test_what_is_declared_goes_beside_them() -> None:
    options: Any = {"timestamp": "at", "where": "n > 0", "tombstone": "n = 9", "partitions": 3}
    node = Pipeline("shop").table("orders", ORDERS, key=["n"], value=["id", "kafka_offset"], **options)
    source = node.source
    assert source is not None
    assert (node.key, node.value, node.partitions) == ({"n": "INT"}, ("id", "kafka_offset"), 3)
    assert source.timestamp == "at"
    assert source.where == "coalesce((n > 0), kafka_tombstone)"
    assert source.tombstone == "kafka_tombstone OR (n = 9)"


def test_a_global_table_is_one_partition() -> None:
    assert Pipeline("shop").global_table("orders", ORDERS).partitions == 1


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a name": (lambda: Kafka("a b", value=Text()), "topic 'a b': a name is letters"),
    "no format": (lambda: Kafka("t", value=cast(Any, "json")), "value='json' is no format"),
    "no columns": (lambda: Kafka("t", value=JSON({})), "the value of topic 't' has no columns"),
    "a column twice": (
        lambda: Kafka("t", key=Text("A"), value=JSON({"a": "INT"})),
        "columns 'A' and 'a', one name to Spark",
    ),
    "a column of Kafka's": (lambda: Kafka("t", value=Text("kafka_offset")), "two columns 'kafka_offset'"),
    "a number": (lambda: Number("DECIMAL(3,1)"), "is not one of SMALLINT"),
    "another key": (
        lambda: Pipeline("shop").stream("orders", ORDERS, key=["n"]),
        r"key 'n' is not the key of topic 'orders' \('id'\), .*; give partitions=N",
    ),
    "no key": (
        lambda: Pipeline("shop").stream("orders", Kafka("orders", value=VALUE)),
        "it has no key: name at least one column",
    ),
    "files' option": (
        lambda: Pipeline("shop").stream("orders", ORDERS, duplicate_files="read"),
        "duplicate_files is of files",
    ),
    "files without a time": (
        lambda: Pipeline("shop").stream("orders", Files("*.csv", "csv", {"id": "INT"}), key=["id"]),
        "a source of files needs 'timestamp'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    declare, says = REFUSED[case]
    with pytest.raises((ValueError, DeclarationError), match=says):
        declare()


def test_topics_meet_topics_and_files_what_is_hashed() -> None:
    shop = Pipeline("shop")
    window = JoinWindow("1s", "1s")
    orders = shop.stream("orders", ORDERS)
    payments = shop.stream("payments", Kafka("payments", key=Text("id"), value=JSON({"paid": "INT"})))
    assert orders.join(payments, window=window).partitions == OF_ITS_TOPIC
    rows = Files("*.csv", "csv", {"id": "STRING", "x": "INT", "t": "BIGINT"})
    files = shop.stream("files", rows, key=["id"], timestamp="t")
    with pytest.raises(DeclarationError, match=r"'orders' has the partitions of its topic .* 'files' has 4 partitions"):
        orders.join(files, window=window)
    hashed = shop.stream("hashed", ORDERS, partitions=4)
    assert hashed.join(files, window=window).partitions == 4
    assert orders.select_key({"by": Expr("n", "INT")}, "by_n").partitions == 4


def test_an_envelope_of_debezium() -> None:
    source = Kafka("shop.public.orders", key=Debezium({"id": "INT"}), value=Debezium({"n": "INT"}))
    made = Pipeline("shop").table("orders", source, where="n > 0").source
    assert made is not None
    assert (list(made.key), list(made.value)) == (["id"], ["n"]), "what the envelope adds is no value by default"
    assert made.tombstone == "(kafka_tombstone OR debezium_op <=> 'd')"
    assert made.where == "coalesce((n > 0), (kafka_tombstone OR debezium_op <=> 'd'))", "a delete goes through"
    assert list(source.schema)[-4:] == ["debezium_op", "debezium_ts_ms", "debezium_lsn", "debezium_absent"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"encoding": "xml"}, "encoding 'xml' is not one of json, avro"),
        ({"decimals": "precise"}, "decimals 'precise' is not one of schema, text"),
    ],
)
def test_an_envelope_that_is_declared_wrongly(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Debezium({"n": "INT"}, **given)
