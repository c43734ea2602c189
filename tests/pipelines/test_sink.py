"""What `Node.to_topic` accepts, and how it refuses the rest."""

from __future__ import annotations

from typing import Any

import pytest

from rivermeet.pipelines import JSON, Avro, DeclarationError, Files, Node, Number, Pipeline, Raw, Text


def node(**key: str) -> Node:
    files = Files("orders/*.csv", "csv", {**key, "n": "INT", "at": "BIGINT"})
    return Pipeline("shop").table("orders", files, key=list(key), value=["n"], timestamp="at")


def test_defaults() -> None:
    assert node(id="STRING").to_topic("a").key == Text()
    assert node(id="BIGINT").to_topic("a").key == JSON()
    assert node(id="STRING", leg="INT").to_topic("a").key == JSON()
    assert node(id="STRING").to_topic("a").value == JSON()


def test_a_pipeline_lists_them() -> None:
    orders = node(id="STRING")
    one, two = orders.to_topic("one"), orders.to_topic("two", partitions=3)
    assert orders.pipeline.sinks == orders.pipeline.sinks_of(orders) == (one, two)
    assert (one.id, two.partitions) == ("orders>one", 3)


@pytest.mark.parametrize(
    ("topic", "options", "problem"),
    [
        ("a b", {}, "a topic's name is letters, digits"),
        ("a", {"partitions": 0}, "partitions is 0; give 1 or more"),
        ("a", {"value": Text()}, "values are written as JSON"),
        ("a", {"key": Avro({"id": "STRING"})}, "keys are written as JSON, Text, Number or Raw"),
        ("a", {"key": Number("INT")}, "needs one key column of type INT, and the key is"),
        ("a", {"key": Raw()}, "needs one key column of type BINARY"),
    ],
)
def test_what_cannot_be_written(topic: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(DeclarationError, match=problem):
        node(id="STRING").to_topic(topic, **options)


def test_a_topic_has_one_writer() -> None:
    orders = node(id="STRING")
    orders.to_topic("a")
    with pytest.raises(DeclarationError, match="topic 'a' is written by 'orders' already; name another"):
        orders.to_topic("a")
