"""Records of a topic that are none of the source: dead letters that keep their bytes, and are decoded again."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from rivermeet.infra.kafka.refusals import RegistryUnavailableError
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.infra.sources.source_step import TooManyBadRowsError
from rivermeet.pipelines import JSON, Avro, Kafka, Node, Number, Pipeline, Text, expr, limits
from rivermeet.pipelines.reads.kafka import Format
from tests.infra.sources.kafka.formats.schemas import served
from tests.infra.sources.kafka.town import Town
from tests.reliability import survived

pytestmark = pytest.mark.slow

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}
WIDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "n", "type": "long"}, {"name": "note", "type": "string", "default": ""}],
}


def orders(town: Town, format: Format, **options: Any) -> Node:
    topic = Kafka(town.named("orders"), key=Text("id"), value=format)
    given: Any = {"max_bad_share": 1} | options
    return Pipeline("shop").stream("orders", topic, **given)


def framed(id: int, schema: Any, value: Any) -> bytes:
    stream = BytesIO()
    schemaless_writer(stream, parse_schema(schema), value)
    return b"\0" + struct.pack(">I", id) + stream.getvalue()


def test_letters_keep_bytes_and_are_decoded_again(town: Town) -> None:
    """By today's declaration, also when the topic has removed them; in the partition that they came from."""
    town.make("orders", 2)
    node = orders(town, JSON({"n": "INT"}))
    torn = '{"n": ' + "1" * limits.LETTER_WIDTH
    town.send(
        "orders",
        (0, "a", {"n": 1}, 1),
        (1, "b", {"n": "x"}, 2),
        (1, "c", "[1]", 3),
        (0, b"\xff", {"n": 2}, 4),
        (0, None, {"n": 3}, 5),
        (1, "d", torn, 6),
    )
    result = town.run(node)
    assert result is not None and (result.rows, result.sides) == (1, {"dead_letter": 5})
    name = town.named("orders")
    object = "the value is not one JSON object with fields of the declared types"
    assert [(letter["file"], letter["line"], letter["reason"]) for letter in town.letters(node)] == [
        (f"{name}/0", 1, "the key is not UTF-8 text"),
        (f"{name}/0", 2, "key column 'id' is null"),
        (f"{name}/1", 0, "column 'n': 'x' is not INT"),
        (f"{name}/1", 1, object),
        (f"{name}/1", 2, object),
    ]
    letter = town.letters(node)[2]
    assert {k: base64.b64decode(v) for k, v in json.loads(letter["text"]).items()} == {
        "key": b"b",
        "value": b'{"n": "x"}',
    }
    assert json.loads(letter["header"]) == {"partition": 1, "offset": 0, "timestamp": 2}
    town.remove_before("orders", {0: 3, 1: 3})
    # Its length, whatever it is.
    other = orders(town, Text("text"), value={"n": expr("length(text)", "INT")})
    corrected = replace(node, origin=other.origin)
    again = town.run(corrected, retry=True)
    assert again is not None and isinstance(again.plan.reads, TopicSlice)
    assert (again.rows, again.sides, again.plan.reads.unread) == (3, {"dead_letter": 2}, {})
    assert [(p, o, key[0], value[0], at) for p, o, key, value, at in town.rows(corrected)] == [
        (0, 0, "a", 1, 1),
        (1, 0, "b", 10, 2),
        (1, 1, "c", 3, 3),
        (1, 2, "d", len(torn), 6),
    ]
    survived("a payload that cannot be decoded", "a dead letter with its bytes, and a record after a retry")


def test_too_many_refuse_the_epoch(town: Town) -> None:
    town.make("orders")
    node = orders(town, Number("INT", "n"), max_bad_share=0.4)
    town.send("orders", (0, "a", struct.pack(">i", 7), 1), (0, "b", b"no", 2))
    with pytest.raises(TooManyBadRowsError) as refused:
        town.run(node)
    said = str(refused.value)
    assert f"1 of 2 rows in topic '{town.named('orders')}' are no records, more than max_bad_share=0.4" in said
    assert f"{town.named('orders')}/0, offset 1: " in said and "(the value has 2 bytes, and a INT has 4)" in said
    result = town.run(replace(node, origin=orders(town, Number("INT", "n"), max_bad_share=0.5).origin))
    assert result is not None and (result.rows, result.plan.epoch) == (1, 2), "read again, under the new share"


def test_schemas_of_a_registry(town: Town) -> None:
    """Each record by its writer's schema; an id that nobody has is a letter, a registry that is down fails the run."""
    town.make("orders")
    node = orders(town, Avro({"n": "BIGINT", "note": "STRING"}))
    with served({1: {"schema": json.dumps(ORDER)}, 2: {"schema": json.dumps(WIDER)}}) as schemas:
        town.registry = schemas.url
        old, new = framed(1, ORDER, {"n": 1}), framed(2, WIDER, {"n": 2**40, "note": "x"})
        town.send("orders", (0, "a", old, 1), (0, "b", new, 2), (0, "c", framed(3, ORDER, {"n": 3}), 3))
        town.run(node)
        assert [value for *_, value, _ in town.rows(node)] == [(1, None), (2**40, "x")]
        (letter,) = town.letters(node)
        assert letter["reason"] == "the value has schema 3, which the registry does not have"
        assert json.loads(letter["header"])["value_schema"] == 3
    town.send("orders", (0, "d", old, 4))
    assert town.run(node) is not None, "schemas that are known need no registry"
    town.send("orders", (0, "e", framed(4, ORDER, {"n": 5}), 5))
    with pytest.raises(RegistryUnavailableError) as refused:
        town.run(node)
    assert "127.0.0.1" not in str(refused.value)
    survived("a schema id that the registry does not have", "a dead letter, and a record after a retry")
    with served({3: {"schema": json.dumps(ORDER)}, 4: {"schema": json.dumps(ORDER)}}) as schemas:
        town.registry = schemas.url
        town.send("orders", (0, "f", framed(4, ORDER, {"n": 6}), 6))
        result = town.run(node)
        assert result is not None and isinstance(result.plan.reads, TopicSlice)
        assert result.plan.reads.unread == {0: (4, 5)}, "the plan that stood, and nothing that came since"
        town.run(node)
        assert town.run(node, retry=True) is not None
    assert [key[0] for _, _, key, _, _ in town.rows(node)] == ["a", "b", "d", "e", "f", "c"]
    survived("a schema registry that is down", "the run fails, and the next one reads what was planned")


def test_an_incompatible_schema(town: Town) -> None:
    """A writer that changes a field's type where no registry keeps it from that: what does not fit is a letter."""
    town.make("orders")
    node = orders(town, Avro({"n": "INT"}))
    words = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "string"}]}
    lacks = {"type": "record", "name": "Order", "fields": [{"name": "m", "type": "int"}]}
    known = {id: {"schema": json.dumps(schema)} for id, schema in enumerate((ORDER, words, lacks), 1)}
    with served(known) as schemas:
        town.registry = schemas.url
        town.send(
            "orders",
            (0, "a", framed(1, ORDER, {"n": 1}), 1),
            (0, "b", framed(2, words, {"n": "two"}), 2),
            (0, "c", framed(2, words, {"n": "3"}), 3),
            (0, "d", framed(3, lacks, {"m": 4}), 4),
        )
        town.run(node)
    assert [(key[0], value) for *_, key, value, _ in town.rows(node)] == [("a", (1,)), ("c", (3,)), ("d", (None,))]
    (letter,) = town.letters(node)
    assert (letter["line"], "INT" in letter["reason"]) == (1, True), letter["reason"]
    survived("an incompatible schema of a topic's writer", "what does not fit the declared types is a dead letter")
