"""What happens to a topic between two epochs, or under one: nothing is lost or doubled, or a refusal says what is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rivermeet.infra import crash
from rivermeet.infra.kafka.refusals import (
    BrokerUnavailableError,
    EndWentBackError,
)
from rivermeet.infra.settings import PROJECT, Settings
from rivermeet.infra.sources.kafka import consume, ingest
from rivermeet.infra.sources.kafka.topic import lag_of, topic_id
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import Kafka, Pipeline, Stream, Text, limits
from tests.crashes import crashing_at
from tests.infra.sources.kafka.town import Town
from tests.reliability import handled, survived
from tests.servers.broker import running

pytestmark = pytest.mark.slow


def lines(town: Town, partitions: int | None = None) -> Stream:
    return Pipeline("shop").stream("lines", Kafka(town.named("lines"), key=Text(), value=Text()), partitions=partitions)


def said(town: Town, node: Stream) -> list[str]:
    """Values, in the order of the changelog."""
    return [value[0] for *_, value, _ in town.rows(node)]


def put(town: Town, *values: str, partition: int = 0) -> None:
    town.send("lines", *[(partition, "k", value, 1_000 + n) for n, value in enumerate(values)])


def test_partitions_are_added(town: Town) -> None:
    town.make("lines")
    node = lines(town)
    put(town, "a")
    town.run(node)
    town.grow("lines", 3)
    put(town, "c", partition=2)
    put(town, "b")
    result = town.run(node)
    assert result is not None and isinstance(result.plan.reads, TopicSlice)
    assert (result.plan.reads.added, result.plan.reads.unread) == ((1, 2), {0: (1, 2), 2: (0, 1)})
    assert said(town, node) == ["a", "b", "c"]
    survived("partitions added to a topic", "the next epoch reads them, with a warning")


@pytest.mark.prove
@pytest.mark.parametrize("point", ["planned", "landed", "computed", "sides-written", "committed", "recorded"])
def test_sigkill_at_every_point(town: Town, settings: Settings, point: str) -> None:
    """A process of its own dies there; what it was doing in the engine is ended by who comes next."""
    topic = town.make("lines")
    node, whole = lines(town), replace(lines(town), name="whole")
    put(town, "a", "b")
    command = [sys.executable, "-m", "tests.infra.sources.kafka.reading", str(town.world.root), town.broker.address]
    env = os.environ | settings.environ() | {crash.SETTING: point}
    done = subprocess.run([*command, topic], cwd=PROJECT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    put(town, "c")
    while town.run(node) is not None:
        pass
    town.run(whole)
    assert town.rows(node) == town.rows(whole)
    survived(f"SIGKILL of a topic's epoch, {point}", "the next run ends in the rows of an undisturbed one")


@pytest.mark.prove
def test_compaction_between_plan_and_read(town: Town) -> None:
    """The plan stands, and its range is read with the gaps that are there now: the last value of each key is kept."""
    settings = {"segment_ms": 100, "min_cleanable_dirty_ratio": 0.001, "max_compaction_lag_ms": 200}
    topic = town.make("lines", cleanup_policy="compact", **settings)
    node = lines(town)
    town.send("lines", *[(0, "k", f"a{n}", 1_000 * n + 1) for n in range(10)])
    with crashing_at("planned"):
        town.run(node)
    deadline = time.monotonic() + 60
    sent = 10
    while count(town, topic) == 10 and time.monotonic() < deadline:
        # A segment is compacted once it is no longer the newest, and a new one begins by the time of its records.
        time.sleep(0.3)
        town.send("lines", (0, "other", "later", 1_000 * sent))
        sent += 1
    result = town.run(node)
    assert result is not None and isinstance(result.plan.reads, TopicSlice)
    assert result.plan.reads.ranges == {0: (0, 10)}
    assert 0 < result.rows < 10, "some are gone"
    assert said(town, node) == sorted(said(town, node)), "the others in their order"
    while town.run(node) is not None:
        pass
    assert said(town, node)[-1] == "later"
    survived("compaction between plan and read", "the planned offsets are read, with the records that are left")


def count(town: Town, topic: str) -> int:
    """How many of the first ten offsets have a record."""
    slice = TopicSlice(topic=topic, id=topic_id(town.connection, topic)[0], ranges={0: (0, 10)})
    return sum(map(len, consume.consume_slice(town.connection, slice, "shop.lines")))


def test_skewed_clocks(town: Town) -> None:
    """Records stay in the order of their offsets; one of a time out of bounds is a dead letter, and closes nothing."""
    topic = town.make("lines", message_timestamp_after_max_ms=2**63 - 1)
    source = Kafka(topic, key=Text(), value=Text())
    node = Pipeline("shop").stream("lines", source, not_after="2100-01-01", max_bad_share=0.5)
    year_9999 = 253_370_764_800_000
    town.send("lines", (0, "k", "a", 5_000), (0, "k", "b", 1_000), (0, "k", "c", year_9999), (0, "k", "d", 2_000))
    result = town.run(node)
    assert result is not None
    assert [(value[0], timestamp) for *_, value, timestamp in town.rows(node)] == [
        ("a", 5_000),
        ("b", 1_000),
        ("d", 2_000),
    ]
    (letter,) = town.letters(node)
    assert letter["line"] == 2 and "2100-01-01" in letter["reason"]
    assert result.note.times == {0: 5_000}, "no window is closed by it"
    (lag,) = lag_of(town.step(node).position(result.note), town.step(node).state())
    assert (lag.behind, lag.seconds, (lag.age(time.time() * 1000) or 0) < 0) == (0, 0.0, True)
    survived("records of a topic with skewed clocks", "kept in their order; a time out of bounds is a dead letter")


@pytest.mark.prove
def test_a_log_that_was_cut_and_has_grown_again(town: Town) -> None:
    """On a broker of its own, which loses the partition's disk: its offsets say nothing, its leader epoch does."""
    with running() as own:
        there = Town(town.world, own)
        there.make("lines")
        node = lines(there)
        put(there, "a", "b")
        there.run(node)
        own.stop()
        own.start()
        put(there, "c")
        there.run(node)
        own.stop()
        shutil.rmtree(own.folder / "data" / f"{there.named('lines')}-0")
        own.start()
        there.ready("lines", 1)
        put(there, *"ABCDEF")
        for _ in range(2):
            with pytest.raises(EndWentBackError, match="has lost records that were read of it, and others lie under"):
                there.run(node)
        assert said(there, node) == ["a", "b", "c"], "the broker that had only restarted had lost none"
        there.run(node, accept_loss=True)
        assert said(there, node) == ["a", "b", "c", "D", "E", "F"]
        put(there, "G")
        there.run(node)
        assert said(there, node) == ["a", "b", "c", "D", "E", "F", "G"]
        handled(
            "Kafka",
            "a log that was cut (unclean election, lost disk) and has grown beyond what was read",
            "refused by the leader epoch, with the commands that read it again or go on",
        )


@pytest.mark.prove
def test_a_broker_that_restarts_while_it_is_read(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a broker of its own. What has come stays, and the rest comes when it is back; until then a run is refused."""
    with running() as own:
        there = Town(town.world, own, patience=30.0)
        there.make("lines")
        node = lines(there)
        there.send("lines", *[(0, "k", f"{n}" + "x" * 100_000, 1_000 + n) for n in range(300)])
        taken = consume.consume_slice

        def interrupted(*given: Any) -> Iterator[Any]:
            for n, messages in enumerate(taken(*given)):
                if n == 1:
                    own.kill()
                    own.start()
                yield messages

        monkeypatch.setattr(ingest, "consume_slice", interrupted)
        there.run(node)
        assert [int(value.rstrip("x")) for value in said(there, node)] == list(range(300))
        own.stop()
        monkeypatch.setattr(limits, "BROKER_SECONDS", 1.0)
        with pytest.raises(BrokerUnavailableError):
            there.run(node)
        survived("a broker killed and started again while it is read", "all records, each once")
