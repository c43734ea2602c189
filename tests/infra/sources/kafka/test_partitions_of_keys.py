"""Keys that a topic's writers put into several partitions: refused with the cure, and right once that was applied."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from rivermeet.assets.cli.sources import run_accepting_loss
from rivermeet.assets.defs.runs import rebuild
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import JSON, Avro, JoinWindow, Kafka, Node, Pipeline, Text, TimeWindows, count
from rivermeet.pipelines.plural import pluralize
from tests.assets.home import Home, homed
from tests.infra.sources.kafka.formats.schemas import served
from tests.infra.sources.kafka.town import Town
from tests.reliability import handled

pytestmark = pytest.mark.slow

VALUE = JSON({"n": "INT"})
_PAIR = JSON({"a": "INT", "b": "INT"})
_ID = {"type": "record", "name": "Id", "fields": [{"name": "a", "type": "int"}]}
SCHEMAS = {
    7: {"schema": json.dumps(_ID)},
    8: {"schema": json.dumps(_ID | {"doc": "the same, written by another team"})},
}
ONE_KEY: Mapping[str, tuple[Any, list[tuple[Any, Any]]]] = {
    "json": (
        JSON({"a": "DECIMAL(10,2)", "b": "INT"}),
        [
            ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
            ('{"a": 2, "b": 2}', '{"a":2,"b":2}'),
            ('{"a": 3.5, "b": 2}', '{"a": "3.50", "b": 2}'),
            ('{"a": 4, "b": 2}', '{"a": 4, "b": 2}'),
        ],
    ),
    "avro": (Avro({"a": "INT"}), [(b"\0\0\0\0\7\x02", b"\0\0\0\0\x08\x02")]),
}
"""Table to the format of its topic's key, and pairs of payloads of one key, as two writers make it."""
CURE = "Declare partitions=N at the source, which puts records where the decoded key belongs"


def tables(town: Town, partitions: int | None) -> Pipeline:
    made = Pipeline("shop")
    for name, (key, _) in ONE_KEY.items():
        made.table(name, Kafka(town.named(name), key=key, value=VALUE), partitions=partitions)
    return made


@contextmanager
def running(pipeline: Pipeline, town: Town, folder: Path, settings: Settings, registry: str = "") -> Iterator[Home]:
    kafka = {"bootstrap.servers": town.broker.address}
    with homed(pipeline, folder, settings, kafka=kafka, schema_registry=registry) as home:
        yield home


def values(home: Home, name: str) -> list[Any]:
    """Values of ``n`` in a folded table."""
    path = NodeTables(home.project.settings.tables, "shop", name).table
    return sorted(row["n"] for row in read(home.project.sessions.open(), path).select("n").collect())


def refused(home: Home, name: str) -> str:
    """The refusal of a node's epoch; none of its rows is committed."""
    return next(line for line in home.said if f"shop.{name}: epoch" in line)


def committed(home: Home, node: Node) -> int:
    found = last_note(NodeTables(home.project.settings.tables, "shop", node.name).changelog)
    return found[1].epoch if found else 0


def test_one_key_in_two_partitions(town: Town, settings: Settings, tmp_path: Path) -> None:
    """Partition 0 has more records, so that by offsets its record would win, which is the older one."""
    for name, (_, pairs) in ONE_KEY.items():
        town.make(name, 2)
        for one, other in pairs:
            town.send(name, *((0, one, {"n": n}, 10 + n) for n in range(3)), (1, other, {"n": 9}, 20))
    with served(SCHEMAS) as registry, running(tables(town, None), town, tmp_path, settings, registry.url) as home:
        assert not home.run()
        for name, (_, pairs) in ONE_KEY.items():
            said = refused(home, name)
            assert "A table's key has its records in one partition of the topic" in said
            assert (
                f"({pluralize(len(pairs), 'violation')}" in said and CURE in said and "`rivermeet rebuild shop`" in said
            )
            assert committed(home, home.pipeline.node(name)) == 0
        home.pipeline = tables(town, 2)
        assert rebuild(home.project, home.pipeline, []), home.said
        assert (values(home, "json"), values(home, "avro")) == ([9] * 4, [9])
    key = "one key in two partitions of a topic"
    becomes = "the epoch of a table is refused; with partitions=N, placed by the decoded key, the later record wins"
    handled("Kafka", f"{key}: JSON keys with other blanks or order of fields, Avro keys of two schemas", becomes)
    handled("Kafka", f"{key}: texts of one DECIMAL, producers with another partitioner", becomes)


def stock(town: Town, partitions: int | None = None) -> Pipeline:
    made = Pipeline("shop")
    made.table("stock", Kafka(town.named("stock"), key=Text("id"), value=VALUE), partitions=partitions)
    return made


@pytest.mark.prove
def test_a_key_that_moves_between_epochs(town: Town, settings: Settings, tmp_path: Path) -> None:
    """By a topic that got partitions, and by one that was recreated with more; a key that had ended starts over."""
    town.make("stock", 1)
    sent = [(0, key, {"n": n}, 10) for key, n in (("a", 1), ("b", 2), ("c", 3), ("d", 4))]
    town.send("stock", *sent, (0, "d", None, 11))
    with running(stock(town), town, tmp_path, settings) as home:
        node = home.pipeline.node("stock")
        assert home.run(), home.said
        town.grow("stock", 2)
        town.send("stock", (1, "d", {"n": 44}, 20))
        assert home.run(), "it ended with the first epoch"
        assert values(home, "stock") == [1, 2, 3, 44]
        # Of all records at once, the tombstone of d has the highest offset.
        assert folded_anew(home, node) == [1, 2, 3, 44]
        town.send("stock", (1, "b", None, 21))
        assert not home.run()
        assert "first_partition" in refused(home, "stock") and CURE in refused(home, "stock")
        assert values(home, "stock") == [1, 2, 3, 44]
        home.pipeline = stock(town, 2)
        assert rebuild(home.project, home.pipeline, []), home.said
        assert values(home, "stock") == [1, 3, 44]
    handled("Kafka", "a key that lies elsewhere after partitions were added", "the epoch of a table is refused")


@pytest.mark.prove
def test_a_topic_recreated_with_more_partitions(town: Town, settings: Settings, tmp_path: Path) -> None:
    town.make("stock", 1)
    town.send("stock", (0, "a", {"n": 1}, 10), (0, "b", {"n": 2}, 10), (0, "b", {"n": 3}, 11))
    with running(stock(town), town, tmp_path, settings) as home:
        assert home.run(), home.said
        town.delete("stock")
        town.make("stock", 2)
        town.send("stock", (1, "b", {"n": 30}, 20))
        with pytest.raises(Exception, match="one partition of the topic") as found:
            run_accepting_loss(home.project, home.pipeline.node("stock"))
        assert CURE in str(found.value)
        assert values(home, "stock") == [1, 3]
    handled(
        "Kafka",
        "a topic that was recreated with another number of partitions",
        "accept-loss refuses an epoch of a table in which a key that has a row lies elsewhere",
    )


def folded_anew(home: Home, node: Node) -> list[Any]:
    from rivermeet.infra.epochs.stages.fold import refold

    assert refold(home.project.context(home.pipeline), node)
    return values(home, node.name)


def joined(town: Town, partitions: int | None) -> Pipeline:
    """Joins of a topic that librdkafka's partitioner writes with one that Java's clients write."""
    made = Pipeline("shop")
    java, crc = (Kafka(town.named(name), key=Text("id"), value=VALUE) for name in ("java", "crc"))
    select, window = {"l": "left.n", "r": "right.n"}, JoinWindow("1s", "1s", grace="1s")
    orders = made.stream("orders", java, partitions=partitions)
    payments = made.stream("payments", crc, partitions=partitions)
    users, accounts = (made.table(n, topic, partitions=partitions) for n, topic in (("users", java), ("accounts", crc)))
    orders.left_join(payments, "paid", window=window, select=select)
    orders.left_join(accounts, "named", select=select)
    users.join(accounts, "both", select=select)
    orders.merge(payments, "all_of_them").group_by_key().windowed_by(TimeWindows("1s")).aggregate(
        {"c": count()}, "many"
    )
    return made


@pytest.mark.prove
def test_topics_of_two_partitioners(town: Town, settings: Settings, tmp_path: Path) -> None:
    keys = [f"k{i}" for i in range(8)]
    for name, partitioner in (("java", "murmur2_random"), ("crc", "consistent_random")):
        town.make(name, 4)
        producer = Producer({"bootstrap.servers": town.broker.address, "partitioner": partitioner})
        for key in keys:
            producer.produce(town.named(name), json.dumps({"n": 1}), key, timestamp=10)
        assert producer.flush(20) == 0
    with running(joined(town, None), town, tmp_path, settings) as home:
        assert not home.run()
        for name in ("paid", "named", "both"):
            assert "Equal keys of both sides are in the same partition" in refused(home, name)
            assert CURE.replace("source", "sources") in refused(home, name)
            assert committed(home, home.pipeline.node(name)) == 0
        assert "A table's key has its records in one partition" in refused(home, "many")
        home.pipeline = joined(town, 4)
        assert rebuild(home.project, home.pipeline, []), home.said
        assert values_of(home, "both") == values_of(home, "many") == [(1, 1)] * len(keys)
    handled(
        "Kafka",
        "joined topics of equal counts whose producers have other partitioners (CRC-32, murmur2)",
        "the join's epoch is refused; with partitions=N at both sources, all keys meet",
    )


def values_of(home: Home, name: str) -> list[tuple[Any, ...]]:
    path = NodeTables(home.project.settings.tables, "shop", name).table
    rows = read(home.project.sessions.open(), path).collect()
    return [(row["l"], row["r"]) if "l" in row else (row["c"] // 2, 1) for row in rows]
