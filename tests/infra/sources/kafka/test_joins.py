"""The same records from topics and from files are joined to the same rows; topics with other partitions are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from rivermeet.infra.kafka.refusals import NotCoPartitionedError
from rivermeet.infra.sources.kafka.topic import Topics
from rivermeet.pipelines import JSON, Files, JoinWindow, Kafka, Pipeline, Text
from tests.builders import json_file
from tests.infra.sources.kafka.town import Town
from tests.reliability import survived
from tests.world import cut

pytestmark = pytest.mark.slow

Sent = tuple[str, str, str | None, int]
"""Source, key, ``v`` (None: a tombstone) and timestamp."""
SENT: list[Sent] = [
    ("users", "a", "Ann", 10),
    ("orders", "a", "pen", 20),
    ("payments", "a", "1.50", 25),
    ("orders", "b", "ink", 30),
    ("accounts", "b", "B1", 31),
    ("users", "b", "Bob", 35),
    ("users", "a", "Anna", 40),
    ("payments", "b", "2.00", 45),
    ("orders", "a", "cap", 50),
    ("accounts", "a", "A1", 52),
    ("users", "b", None, 60),
    ("orders", "b", "nib", 70),
    ("payments", "a", "9.00", 200),
    ("accounts", "a", None, 210),
    ("orders", "c", "mug", 220),
]
STREAMS, TABLES = ("orders", "payments"), ("users", "accounts")
JOINS = ("paid", "named", "both")


def shop(sources: Mapping[str, Any], **options: Any) -> Pipeline:
    """Two streams, two tables, and a join of each kind between them."""
    made = Pipeline("shop")
    given: Any = {"value": ["v"]} | options
    orders, payments = (made.stream(name, sources[name], **given) for name in STREAMS)
    users, accounts = (made.table(name, sources[name], **given) for name in TABLES)
    both = {"l": "left.v", "r": "right.v"}
    window = JoinWindow(before="10ms", after="20ms", grace="10ms")
    orders.outer_join(payments, "paid", window=window, select=both, max_task_idle_ms=0)
    orders.left_join(users, "named", select=both)
    users.outer_join(accounts, "both", select=both)
    return made


def of_topics(town: Town, partitions: int) -> Pipeline:
    for name in (*STREAMS, *TABLES):
        town.make(name, partitions)
    value = JSON({"v": "STRING"})
    return shop({n: Kafka(town.named(n), key=Text("id"), value=value) for n in (*STREAMS, *TABLES)})


def of_files(town: Town) -> Pipeline:
    schema = {"id": "STRING", "v": "STRING", "at": "BIGINT", "gone": "BOOLEAN"}
    files = {n: Files(f"{n}/*.jsonl", "json", schema) for n in (*STREAMS, *TABLES)}
    return shop(files, key=["id"], timestamp="at", tombstone="coalesce(gone, FALSE)", partitions=1)


def send(town: Town, sent: Iterable[Sent], partitions: int) -> None:
    for name, key, v, at in sent:
        value = None if v is None else {"v": v}
        town.send(name, (ord(key) % partitions, key, value, at))


def write(town: Town, sent: Sequence[Sent], number: int) -> None:
    for name in (*STREAMS, *TABLES):
        lines = [{"id": k, "v": v, "at": at, "gone": v is None} for source, k, v, at in sent if source == name]
        json_file(town.world.root / "data" / name / f"{number:02d}.jsonl", *lines)


def joined(town: Town, pipeline: Pipeline, name: str) -> list[tuple[Any, ...]]:
    return town.rows(pipeline.node(name))


def same_from_both(topics: Town, files: Town, epochs: int) -> None:
    by_topic, by_file = of_topics(topics, 1), of_files(files)
    for number, sent in enumerate(cut(SENT, epochs)):
        send(topics, sent, 1)
        write(files, sent, number)
        topics.run_all(by_topic.nodes)
        files.run_all(by_file.nodes)
    for node in by_topic.nodes:
        assert joined(topics, by_topic, node.name) == joined(files, by_file, node.name), node.name
    assert all(len(joined(topics, by_topic, name)) > 3 for name in JOINS)


def test_the_same_rows_as_from_files(town: Town, beside: Town) -> None:
    same_from_both(town, beside, 1)


@pytest.mark.prove
@pytest.mark.parametrize("epochs", [3, len(SENT)])
def test_the_same_rows_as_from_files_in_many_epochs(town: Town, beside: Town, epochs: int) -> None:
    same_from_both(town, beside, epochs)


@pytest.mark.prove
def test_two_partitions(town: Town) -> None:
    """Keys stay in Kafka's partitions, and the pairs are those of one partition."""
    pipeline = of_topics(town, 2)
    send(town, SENT, 2)
    town.run_all(pipeline.nodes)
    assert {(key[0], *value) for _, _, key, value, _ in joined(town, pipeline, "named") if value} == {
        ("a", "pen", "Ann"),
        ("a", "cap", "Anna"),
        ("b", "ink", None),
        ("b", "nib", None),
        ("c", "mug", None),
    }
    assert {partition for partition, *_ in joined(town, pipeline, "named")} == {0, 1}


def test_other_numbers_of_partitions(town: Town) -> None:
    """Refused when the join is planned, and from the epoch on that finds new partitions."""
    made = Pipeline("shop")
    for name, partitions in (("orders", 2), ("payments", 2)):
        town.make(name, partitions)
    value = JSON({"v": "STRING"})
    orders, payments = (made.stream(n, Kafka(town.named(n), key=Text("id"), value=value)) for n in STREAMS)
    some = orders.filter("v <> ''", "some")
    paid = some.join(payments, "paid", window=JoinWindow("1s", "1s"), select={"l": "left.v", "r": "right.v"})
    town.send("orders", (1, "a", {"v": "pen"}, 10))
    town.send("payments", (1, "a", {"v": "1"}, 11))
    town.run_all(made.nodes)
    assert town.rows(paid) == [(1, 0, ("a",), ("pen", "1"), 11)]
    context = town.world.runner("shop")
    assert [Topics(context.tables, context.log).count(node) for node in (orders, some, paid)] == [2, 2, 2]
    town.grow("payments", 3)
    town.send("payments", (2, "a", {"v": "2"}, 12))
    town.run_all((orders, payments, some))
    with pytest.raises(NotCoPartitionedError) as refused:
        town.run(paid)
    names = [town.named(name) for name in STREAMS]
    assert f"topic '{names[0]}' has 2 partitions, topic '{names[1]}' has 3, and equal keys" in str(refused.value)
    survived("joined topics with other numbers of partitions", "refused, naming both topics and counts")


def test_records_wait_for_the_other_topic(town: Town) -> None:
    """``max_task_idle_ms`` looks at each partition of the topics, as many as there are."""
    made = Pipeline("shop")
    for name in STREAMS:
        town.make(name)
    value = JSON({"v": "STRING"})
    orders, payments = (made.stream(n, Kafka(town.named(n), key=Text("id"), value=value)) for n in STREAMS)
    window, both = JoinWindow("1s", "1s"), {"l": "left.v", "r": "right.v"}
    paid = orders.join(payments, "paid", window=window, select=both, max_task_idle_ms=None)
    town.send("orders", (0, "a", {"v": "pen"}, 10), (0, "a", {"v": "ink"}, 30))
    town.send("payments", (0, "a", {"v": "1"}, 20))
    town.run_all((orders, payments))
    plan = town.step(paid).plan(None, None, 1)
    assert plan is not None
    assert {side: part.records for side, part in plan.inputs.items()} == {"left": 1, "right": 1}, "30 may be preceded"
