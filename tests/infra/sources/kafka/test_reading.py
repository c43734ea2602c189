"""What of a topic becomes records: up to the last stable offset, each once, in the order of its partition."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from confluent_kafka import Producer

from rivermeet.infra.sources.kafka.consume import consume_slice
from rivermeet.infra.sources.kafka.topic import lag_of, topic_state
from rivermeet.infra.sources.kafka.topic_slice import PartitionLag, TopicSlice
from rivermeet.pipelines import JSON, Kafka, Pipeline, Stream, Table, Text, expr
from tests.infra.sources.kafka.town import Town
from tests.reliability import handled, survived

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
    assert second is not None and isinstance(second.plan.reads, TopicSlice)
    assert second.plan.reads.ranges == {0: (0, 1), 1: (0, 2)}
    assert town.rows(node) == [
        (0, 0, ("a",), (2,), 20),
        (1, 0, ("b",), (1,), 30),
        (1, 1, ("b",), (3,), 10),
    ]
    assert town.run(node) is None, "nothing new"
    town.send("orders", (1, "c", {}, 40))
    third = town.run(node)
    assert third is not None and isinstance(third.plan.reads, TopicSlice)
    assert third.plan.reads.unread == {1: (2, 3)}
    assert town.rows(node)[-1] == (1, 2, ("c",), (None,), 40)


def test_transactions(town: Town) -> None:
    """Committed records are read, aborted ones are not, and an open one holds back what comes after it."""
    topic = town.make("orders")
    node = orders(town)
    with town.transaction("orders", (0, "a", {"n": 1}, 1), (0, "a", None, 2)) as committed:
        committed.commit_transaction(20)
    with town.transaction("orders", (0, "x", {"n": 9}, 3)) as aborted:
        aborted.abort_transaction(20)
    town.until("orders", {0: 5})
    with town.transaction("orders", (0, "b", {"n": 2}, 4)) as still_open:
        town.send("orders", (0, "c", {"n": 3}, 5))
        first = town.run(node)
        assert first is not None and isinstance(first.plan.reads, TopicSlice)
        assert (first.plan.reads.ranges, first.plan.reads.high) == ({0: (0, 5)}, {0: 7})
        assert town.rows(node) == [(0, 0, ("a",), (1,), 1), (0, 1, ("a",), None, 2)]
        (lag,) = lag_of(first.plan.reads, town.step(node).state())
        assert lag == PartitionLag(0, 5, 5, 7, lag.consumed_ms, lag.consumed_ms)
        assert lag.consumed_ms is not None and lag.consumed_ms > 5, (
            "the end of a transaction has a time, too: the broker's"
        )
        still_open.abort_transaction(20)
    town.until("orders", {0: 8})
    second = town.run(node)
    assert second is not None and isinstance(second.plan.reads, TopicSlice)
    assert second.plan.reads.ranges == {0: (5, 8)}, topic
    assert town.rows(node)[2:] == [(0, 2, ("c",), (3,), 5)]
    with town.transaction("orders", (0, "x", {"n": 9}, 6)) as aborted:
        aborted.abort_transaction(20)
    town.until("orders", {0: 10})
    third = town.run(node)
    assert third is not None and isinstance(third.plan.reads, TopicSlice)
    assert (third.rows, third.plan.reads.ranges) == (0, {0: (8, 10)}), "offsets, and no record"
    assert town.run(node) is None
    survived("aborted and open transactions", "aborted records are not read, and an open one holds back what follows")


def test_tombstones_and_filters(town: Town) -> None:
    """A null value deletes, whatever a filter asks of the value; an empty one is no JSON."""
    town.make("people")
    node = people(town, where="name <> 'nobody'", max_bad_share=1)
    sent = [("a", {"name": "Ann"}), ("b", {"name": "nobody"}), ("a", None), ("c", {"name": "Cy"}), ("d", "")]
    town.send("people", *[(0, key, value, n) for n, (key, value) in enumerate(sent, 1)])
    result = town.run(node)
    assert result is not None and (result.rows, result.tombstones) == (3, 1)
    assert town.rows(node) == [(0, 0, ("a",), ("Ann",), 1), (0, 1, ("a",), None, 3), (0, 2, ("c",), ("Cy",), 4)]
    assert [row["id"] for row in town.world.rows(node, "table")] == ["c"]
    assert [letter["line"] for letter in town.letters(node)] == [4]


def test_kafkas_own_fields_are_columns(town: Town) -> None:
    town.make("orders", 2)
    topic = Kafka(town.named("orders"), key=Text("id"), value=JSON({"n": "INT", "at": "BIGINT"}), headers=True)
    node = Pipeline("shop").stream(
        "orders",
        topic,
        value={
            "n": "n",
            "place": expr("concat(kafka_partition, '/', kafka_offset)", "STRING"),
            "first": expr("decode(get(kafka_headers, 0).value, 'UTF-8')", "STRING"),
            "arrived": "kafka_timestamp",
        },
        timestamp="coalesce(at, kafka_timestamp)",
    )
    town.send("orders", (0, "x", {"n": 0}, 5))
    town.send("orders", (1, "a", {"n": 1, "at": 77}, 10), headers=[("first", b"one"), ("second", None)])
    town.run(node)
    assert town.rows(node) == [
        (0, 0, ("x",), (0, "0/0", None, 5), 5),
        (1, 0, ("a",), (1, "1/0", "one", 10), 77),
    ]


def test_a_record_without_a_time(town: Town) -> None:
    """Kafka writes -1 for none, and a year of 1969 it is not; compressed in every way, and with headers of nothing."""
    town.make("orders")
    made, topic = Pipeline("shop"), Kafka(town.named("orders"), key=Text("id"), value=Text("v"), headers=True)
    sizes = {"headers": expr("to_json(kafka_headers)", "STRING")}
    node = made.stream("orders", topic, value=sizes, max_bad_share=1)
    coalesced = made.stream("coalesced", topic, value=["v"], timestamp="coalesce(kafka_timestamp, 7)")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": town.broker.address, "compression.type": codec})
        headers, at = [("h", None), ("e", b"")], -1 if codec == "none" else 5
        producer.produce(town.named("orders"), "", codec, 0, timestamp=at, headers=headers)
        assert producer.flush(20) == 0
    town.run_all((node, coalesced))
    assert [letter["reason"] for letter in town.letters(node)] == ["no event time: 'kafka_timestamp' gave null"]
    shown = '[{"key":"h"},{"key":"e","value":""}]'
    codecs = ("gzip", "snappy", "lz4", "zstd")
    assert town.rows(node) == [(0, n, (codec,), (shown,), 5) for n, codec in enumerate(codecs)]
    assert town.rows(coalesced) == [(0, n, (c,), ("",), (n and 5) or 7) for n, c in enumerate(("none", *codecs))]
    handled("Kafka", "a record whose timestamp is -1: it has none", "a dead letter, unless timestamp= gives it one")


def test_another_key_is_rehashed(town: Town) -> None:
    """Equal keys of two partitions meet in one of ours, in the order of their times."""
    town.make("orders", 2)
    topic = Kafka(town.named("orders"), value=JSON({"who": "STRING", "n": "INT"}))
    node = Pipeline("shop").stream("orders", topic, key=["who"], partitions=3)
    town.send("orders", *[(0, None, {"who": "a", "n": n}, at) for n, at in ((1, 100), (2, 90), (3, 300))])
    town.send("orders", *[(1, None, {"who": "a", "n": n}, at) for n, at in ((4, 50), (5, 200))])
    town.run(node)
    rows = town.rows(node)
    assert [value for *_, value, _ in rows] == [(4,), (1,), (2,), (5,), (3,)]
    assert len({partition for partition, *_ in rows}) == 1


def test_one_epoch_and_many_give_the_same(town: Town) -> None:
    town.make("orders", 2)
    whole, each = orders(town), replace(orders(town), name="each")
    for n in range(4):
        town.send("orders", (n % 2, f"k{n % 3}", {"n": n}, 100 - n))
        town.run(each)
    town.run(whole)
    assert town.rows(each) == town.rows(whole)
    assert len(town.rows(whole)) == 4


def test_compaction_leaves_gaps(town: Town) -> None:
    town.make(
        "people", cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.001, max_compaction_lag_ms=200
    )
    for n in range(3):
        town.send("people", (0, "a", {"name": f"A{n}"}, 1000 * n + 1), (0, f"k{n}", {"name": "K"}, 1000 * n + 1))
    sent, deadline = 6, time.monotonic() + 30
    while len(offsets(town, "people")) == sent and time.monotonic() < deadline:
        # A segment is compacted once it is no longer the newest, and a new one begins by the time of its records.
        time.sleep(0.3)
        town.send("people", (0, "last", None, 1000 * sent))
        sent += 1
    node = people(town)
    result = town.run(node)
    assert result is not None and isinstance(result.plan.reads, TopicSlice)
    assert result.rows < result.plan.reads.records, "not each offset has a record"
    assert {row["id"]: row["name"] for row in town.world.rows(node, "table")} == {
        "a": "A2",
        **{f"k{n}": "K" for n in range(3)},
    }


def test_ten_megabytes(town: Town) -> None:
    town.make("orders", max_message_bytes=20_000_000)
    topic = Kafka(town.named("orders"), key=Text("id"), value=Text("text"))
    node = Pipeline("shop").stream("orders", topic, value={"size": expr("length(text)", "INT")})
    town.send("orders", (0, "small", "x", 1), *[(0, "big", "x" * 10_000_000, 2)] * 3, (0, "small", "x", 3))
    town.run(node)
    assert [value for *_, value, _ in town.rows(node)] == [(1,), (10_000_000,), (10_000_000,), (10_000_000,), (1,)]
    survived("a message of 10 MB", "it is read like any other, a few at a time")


def offsets(town: Town, topic: str) -> list[int]:
    """Offsets that have a record now."""
    state = topic_state(town.connection, town.named(topic))
    planned = TopicSlice(topic=state.topic, id=state.id, ranges={p: (0, end) for p, end in state.stable.items()})
    messages = chain.from_iterable(consume_slice(town.connection, planned, "test", 20))
    return [message.offset() or 0 for message in messages]
