"""Values written in Avro and Protobuf by a real registry, and read back: as our sources and as anybody reads them.

of the changelog    {n: 1, at: 10:00, price: 1.50, tags: [a]}, a tombstone
of the topic        00 and the schema's id, the value by that schema; no value
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("confluent_kafka")
from fastavro import parse_schema, schemaless_reader

from rivermeet.infra.kafka.formats.registry import NONE, Registry
from rivermeet.infra.kafka.refusals import RegistryUnavailableError, SchemaRefusedError
from rivermeet.infra.settings import SettingsError
from rivermeet.infra.sinks.kafka.deliver import Delivered, deliver
from rivermeet.infra.sinks.kafka.refusals import SinkRefusedError
from rivermeet.pipelines import JSON, Avro, Kafka, Node, Pipeline, Protobuf, Text, expr
from tests.infra.sinks.test_delivery import committed
from tests.infra.sources.kafka.formats.schemas import served
from tests.infra.sources.kafka.town import Town
from tests.servers.schema_registry import SchemaRegistry

pytestmark = pytest.mark.prove

TYPES = {"n": "INT", "at": "TIMESTAMP", "price": "DECIMAL(5,2)", "label": "STRING"}
SENT = (
    (0, "ann", {"n": 1, "at": "2013-01-01T10:00:00Z", "price": "1.50", "label": "ä"}, 10),
    (0, "bob", {"n": 0, "at": None, "price": None, "label": None}, 11),
    (0, "ann", None, 12),
)
ROWS = [
    (("ann",), (1, datetime(2013, 1, 1, 10, tzinfo=UTC), Decimal("1.50"), "ä"), 10),
    (("bob",), (0, None, None, None), 11),
    (("ann",), None, 12),
]


@pytest.fixture
def registry(schema_registry: SchemaRegistry, tmp_path: Path) -> Registry:
    return Registry(schema_registry.url, tmp_path / "schemas")


def delivered(
    town: Town, value: Avro | Protobuf, registry: Registry, columns: Any = None
) -> tuple[Node, str, Delivered]:
    """A table that is read from one topic and written to another in a format; the other's name."""
    pipeline = Pipeline("shop")
    stock = pipeline.table("stock", Kafka(town.named("stock"), key=Text("id"), value=JSON(TYPES)), value=columns)
    sink = stock.to_topic(town.named("out"), value=value, partitions=1)
    town.make("stock")
    town.send("stock", *SENT)
    assert town.run(stock) is not None
    changelog = town.world.runner("shop").paths(stock).changelog
    found = deliver(sink, changelog, town.connection, lambda: town.world.spark, registry=registry)
    assert found is not None
    return stock, sink.topic, found


@pytest.mark.parametrize("value", [Avro(), Protobuf(message="shop.Stock")], ids=["Avro", "Protobuf"])
def test_it_is_read_back_as_it_was(town: Town, registry: Registry, value: Avro | Protobuf) -> None:
    stock, topic, _ = delivered(town, value, registry)
    committed(town, topic)
    again = type(value)(TYPES, *([value.message] if isinstance(value, Protobuf) else []))
    back = Pipeline("back").stream("stock", Kafka(topic, key=Text("id"), value=again))
    assert town.run(back, registry=registry) is not None
    assert town.letters(back) == []
    for node in (stock, back):
        found = [(key, _in_utc(value), timestamp) for *_, key, value, timestamp in town.rows(node)]
        assert found == ROWS


def _in_utc(value: Any) -> Any:
    """Times as they are shown in UTC: Spark gives them in this machine's zone, without it."""
    if value is None:
        return None
    return tuple(part.astimezone(UTC) if isinstance(part, datetime) else part for part in value)


def test_others_read_it_by_the_registry(town: Town, registry: Registry) -> None:
    """Confluent's wire format, by the schema that the registry gives for the id: nothing of ours decodes it."""
    _, topic, _ = delivered(town, Avro(), registry)
    values = [message.value() for message in committed(town, topic)]
    id = int.from_bytes(values[0][1:5], "big")
    with urlopen(f"{registry.url}/subjects/{topic}-value/versions/latest") as answer:
        described = json.load(answer)
    assert (values[0][:1], described["id"]) == (b"\x00", id)
    schema = parse_schema(json.loads(described["schema"]))
    at = datetime(2013, 1, 1, 10, tzinfo=UTC)
    assert [None if v is None else schemaless_reader(BytesIO(v[5:]), schema, None) for v in values] == [
        {"n": 1, "at": at, "price": Decimal("1.50"), "label": "ä"},
        {"n": 0, "at": None, "price": None, "label": None},
        None,
    ]


def test_a_schema_is_given_one_id(registry: Registry) -> None:
    schema = json.dumps({"type": "record", "name": "a", "fields": [{"name": "n", "type": "int"}]})
    assert registry.register("one-value", schema, "AVRO") == registry.register("one-value", schema, "AVRO")


def test_an_incompatible_schema_is_refused(registry: Registry) -> None:
    """The rule of the subject is the registry's; ours only says what it answered."""
    rule = json.dumps({"compatibility": "BACKWARD"}).encode()
    head = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    old = json.dumps({"type": "record", "name": "a", "fields": [{"name": "n", "type": "int"}]})
    registry.register("two-value", old, "AVRO")
    urlopen(Request(f"{registry.url}/config/two-value", rule, head, method="PUT")).close()
    new = json.dumps({"type": "record", "name": "a", "fields": [{"name": "m", "type": "int"}]})
    with pytest.raises(SchemaRefusedError, match=r"subject 'two-value' \(status 409\)"):
        registry.register("two-value", new, "AVRO")


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Registry]:
    with served({}) as started:
        url = started.url
    yield Registry(url, tmp_path)


def test_a_registry_that_is_down_or_not_named(town: Town, stopped: Registry, registry: Registry) -> None:
    """Nothing is written, and the next run writes it."""
    with pytest.raises(RegistryUnavailableError, match="does not take the schema of subject 'out-"):
        delivered(town, Avro(), stopped)
    with pytest.raises(SettingsError, match=r"a value of Avro is written, .* set RIVERMEET_SCHEMA_REGISTRY"):
        NONE.register("a-value", "{}", "AVRO")
    assert committed(town, town.named("out")) == []


def test_a_column_without_a_form(town: Town, registry: Registry) -> None:
    columns = {"n": "n", "tags": expr("array(label)", "ARRAY<STRING>")}
    with pytest.raises(SinkRefusedError, match="an array with a null in it, which Protobuf has no form for; leave"):
        delivered(town, Protobuf(message="shop.Stock"), registry, columns)
    assert committed(town, town.named("out")) == []
