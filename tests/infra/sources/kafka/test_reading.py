"""What of a topic becomes records: up to the last stable offset, each once, in the order of its partition."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines import JSON, Kafka, Pipeline, Stream, Table, Text
from tests.infra.sources.kafka.town import Town

pytestmark = pytest.mark.slow


def orders(town: Town, **options: Any) -> Stream:
    return Pipeline("shop").stream(
        "orders", Kafka(town.named("orders"), key=Text("id"), value=JSON({"n": "INT"})), **options
    )


def people(town: Town, **options: Any) -> Table:
    return Pipeline("shop").table(
        "people", Kafka(town.named("people"), key=Text("id"), value=JSON({"name": "STRING"})), **options
    )


def test_records_keep_their_partition_and_order(town: Town) -> None:
    town.make("orders", 2)
    node = orders(town)
    first = town.run(node)
    assert first is not None and first.rows == 0, "the first epoch gives the changelog its shape"
    town.send("orders", (1, "b", {"n": 1}, 30), (0, "a", {"n": 2}, 20), (1, "b", {"n": 3, "more": "x"}, 10))
    second = town.run(node)
    assert second is not None and second.plan.topic is not None
    assert second.plan.topic.ranges == {0: (0, 1), 1: (0, 2)}
    assert town.rows(node) == [
        (0, 0, ("a",), (2,), 20),
        (1, 0, ("b",), (1,), 30),
        (1, 1, ("b",), (3,), 10),
    ]
    assert town.run(node) is None, "nothing new"
    town.send("orders", (1, "c", {}, 40))
    third = town.run(node)
    assert third is not None and third.plan.topic is not None
    assert third.plan.topic.unread == {1: (2, 3)}
    assert town.rows(node)[-1] == (1, 2, ("c",), (None,), 40)
