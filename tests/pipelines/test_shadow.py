"""What `Node.shadowed_by` accepts, and how it refuses the rest."""

from __future__ import annotations

from typing import Any

import pytest

from rivermeet.pipelines import JSON, Avro, DeclarationError, Files, Node, Number, Pipeline, Text


def node(**key: str) -> Node:
    files = Files("orders/*.csv", "csv", {**key, "n": "INT", "at": "BIGINT"})
    orders = Pipeline("shop").table("orders", files, key=list(key), value=["n"], timestamp="at")
    return orders.filter("n > 1", "some")


def test_defaults() -> None:
    found = node(id="STRING").shadowed_by("a")
    assert (found.id, found.group, found.node.pipeline.shadows) == ("some~a", None, (found,))
    read = found.reads({"n": "int"})
    assert (read.key, read.value) == (Text("id"), JSON({"n": "int"}))
    assert node(id="BIGINT").shadowed_by("a").reads({"n": "int"}).key == JSON({"id": "BIGINT"})


def test_formats_of_its_own() -> None:
    found = node(id="BIGINT").shadowed_by("a", "app", value=Avro({"n": "LONG"}), key=Number("BIGINT"))
    read = found.reads({"n": "int"})
    assert (found.group, read.key, read.value) == ("app", Number("BIGINT"), Avro({"n": "LONG"}))


@pytest.mark.parametrize(
    ("topic", "options", "problem"),
    [
        ("a b", {}, "a topic's name is letters, digits"),
        ("a", {"value": "json"}, "value='json' is no format"),
        ("a", {"value": JSON({"n": "INT", "m": "INT"})}, "the value has 2 columns, and the node 1"),
        ("a", {"key": Text("id")}, "the key has id, and the node id, leg"),
        ("a", {"key": JSON({"id": "STRING", "l": "INT"})}, "the key has id, l, and the node id, leg"),
    ],
)
def test_refused(topic: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        node(id="STRING", leg="INT").shadowed_by(topic, **options)
    assert problem in str(refused.value)


def test_a_source_is_no_answer_and_a_topic_is_one() -> None:
    some = node(id="STRING")
    with pytest.raises(DeclarationError, match="with a node that is computed and stored"):
        some.pipeline.node("orders").shadowed_by("a")
    some.shadowed_by("a")
    with pytest.raises(DeclarationError, match="is compared with 'some' already"):
        some.shadowed_by("a")
