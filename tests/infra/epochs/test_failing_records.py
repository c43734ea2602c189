"""A record that a declared expression fails on is a dead letter, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rivermeet.assets.epoch.failing_records import TooManyFailingRecordsError
from rivermeet.infra import crash
from rivermeet.infra.engine.session import new_session
from rivermeet.infra.epochs.stages import write
from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline
from tests.reliability import survived
from tests.world import World

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TYPES = "key STRUCT<k: STRING>, value STRUCT<n: STRING>"
FILES = Files("none/*.csv", "csv", {"k": "STRING", "n": "STRING", "ts": "BIGINT"})
HOW = {"key": ["k"], "value": ["n"], "timestamp": "ts", "partitions": 2}
RATE = {"rate": "CAST(left.n AS INT) DIV CAST(right.n AS INT)"}


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> World:
    return World(tmp_path, spark, new_session(spark), {"facts": TYPES, "rates": TYPES})


def inputs(left: str, right: str) -> tuple[Any, Any]:
    pipeline = Pipeline("failing")
    return getattr(pipeline, left)("facts", FILES, **HOW), getattr(pipeline, right)("rates", FILES, **HOW)


def rates(world: World, node: Node) -> list[tuple[str, int | None]]:
    found = sorted(world.rows(node), key=lambda row: (row["partition"], row["offset"]))
    return [(row["key"]["k"], row["value"] and row["value"]["rate"]) for row in found]


def letters(world: World, node: Node) -> list[tuple[str, int, int, str, str]]:
    found = sorted(world.rows(node, "dead_letter"), key=lambda row: (row["epoch"], row["partition"], row["offset"]))
    return [(r["side"], r["partition"], r["offset"], r["value"], r["reason"].split("]")[0]) for r in found]


def test_a_fact_that_no_row_can_be_made_of(world: World) -> None:
    facts, table = inputs("stream", "table")
    node = facts.left_join(table, "out", select=RATE)
    world.publish(table, [(("a",), ("2",), 1, 0), (("b",), ("5",), 1, 1)])
    good = [(("a",), (str(n),), 10 + n, 0) for n in range(0, 40, 2)]
    bad = (("b",), ("many",), 30, 1)
    world.publish(facts, [*good, (("b",), ("10",), 20, 1), bad, (("b",), ("15",), 31, 1)])
    result = world.run(node)
    assert result is not None and result.sides == {"dead_letter": 1}
    assert rates(world, node) == [*(("a", n // 2) for n in range(0, 40, 2)), ("b", 2), ("b", 3)]
    assert letters(world, node) == [("left", 1, 1, '{"n":"many"}', "[CAST_INVALID_INPUT")]
    assert world.run(node) is None, "it is not tried again"
    world.publish(facts, [(("b",), ("20",), 40, 1)])
    assert (later := world.run(node)) is not None and later.sides == {"dead_letter": 0}
    assert rates(world, node)[-1] == ("b", 4)
    assert world.verified(node).differing == 0
    survived("a record that an expression fails on", "dead letter with reason, all other rows there")


@pytest.mark.prove
def test_in_a_table_it_ends_the_row_that_it_replaces(world: World) -> None:
    facts, table = inputs("table", "table")
    node = facts.join(table, "out", select=RATE)
    world.publish(facts, [(("a",), ("8",), 1, 0), (("b",), ("9",), 1, 1)])
    world.publish(table, [(("a",), ("2",), 2, 0), (("b",), ("3",), 2, 1)])
    world.run(node)
    world.publish(table, [(("a",), ("0",), 3, 0), (("b",), ("1",), 3, 1)])
    assert (result := world.run(node)) is not None and result.sides == {"dead_letter": 1}
    assert rates(world, node) == [("a", 4), ("a", None), ("b", 3), ("b", 9)]
    assert letters(world, node) == [("right", 0, 1, '{"n":"0"}', "[DIVIDE_BY_ZERO")]
    # The row with 0 is skipped as state, too: a change of the other side meets no row there.
    world.publish(facts, [(("a",), ("10",), 4, 0), (("b",), ("7",), 4, 1)])
    world.run(node)
    world.publish(table, [(("a",), ("5",), 5, 0)])
    world.run(node)
    assert rates(world, node) == [("a", 4), ("a", None), ("a", 2), ("b", 3), ("b", 9), ("b", 7)]
    # DIV is not on the list of what DuckDB understands as Spark does.
    assert world.verified(node, judge="auto").holds


@pytest.mark.prove
def test_a_stream_joined_with_itself(world: World) -> None:
    facts, _ = inputs("stream", "table")
    node = facts.join(facts, "out", window=JoinWindow(5, 5), select=RATE)
    world.publish(facts, [(("a",), ("4",), 1, 0), (("a",), ("0",), 2, 0), (("a",), ("2",), 3, 0)])
    assert (result := world.run(node)) is not None and result.sides["dead_letter"] == 1
    assert sorted(rate for _, rate in rates(world, node) if rate is not None) == [0, 1, 1, 2]


@pytest.mark.prove
def test_killed_before_the_commit_it_is_skipped_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    facts, table = inputs("stream", "table")
    node = facts.left_join(table, "out", select=RATE)
    world.publish(table, [(("a",), ("2",), 1, 0)])
    world.publish(facts, [(("a",), ("x",), 10, 0), (("a",), ("4",), 11, 0)])

    class Killed(BaseException):
        pass

    def killed(point: str, node: str) -> None:
        if point == "sides-written":
            raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(crash, "crash_at", killed)
        world.run(node)
    assert (result := world.run(node)) is not None and result.sides == {"dead_letter": 1}
    assert rates(world, node) == [("a", 2)]
    assert len(letters(world, node)) == 1


@pytest.mark.prove
def test_a_wrong_expression_is_no_bad_record(world: World) -> None:
    facts, table = inputs("stream", "table")
    node = facts.left_join(table, "out", select={"rate": "CAST(concat(left.n, 'x') AS INT)"})
    world.publish(table, [])
    world.publish(facts, [(("a",), (str(n),), n, 0) for n in range(30)])
    with pytest.raises(
        TooManyFailingRecordsError, match=r"more than 10 records.*rivermeet rebuild failing --select out"
    ):
        world.run(node)
    assert rates(world, node) == []


def test_an_error_that_no_value_causes_skips_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    facts, table = inputs("stream", "table")
    node = facts.left_join(table, "out", select={"rate": "CAST(left.n AS INT)"})
    world.publish(table, [])
    world.publish(facts, [(("a",), ("1",), 1, 0)])

    def broken(*_: object) -> None:
        raise PySparkException("the engine is gone")

    with monkeypatch.context() as patched, pytest.raises(PySparkException, match="the engine is gone"):
        patched.setattr(write, "totals", broken)
        world.run(node)
    assert world.run(node) is not None
    assert rates(world, node) == [("a", 1)]
