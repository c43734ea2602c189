"""A rebuild ends in the rows of an undisturbed run, what is below it follows, and verify proves both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from rivermeet.infra.delta.io import is_protected, read
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import JoinWindow, Node, Pipeline, Table
from tests.infra.epochs.killed import die, joined, world
from tests.infra.epochs.test_kill import deliveries, publish
from tests.joins.epochs.batch import FILES
from tests.reliability import survived
from tests.world import World

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
COMMON: dict[str, Any] = {"key": ["k"], "value": ["v"], "timestamp": "ts", "partitions": 1}
LR = {"l": "left.v", "r": "right.v"}


def chained() -> tuple[Node, Node]:
    """A foreign-key join, and a join of its result with its own right table."""
    first = joined()
    spec = first.join_spec
    assert spec is not None
    right = spec.right
    assert isinstance(first, Table) and isinstance(right, Table)
    return first, first.left_join(right, "again", foreign_key="l", select={"l": "left.l", "r": "right.v"})


def rows(target: World, node: Node) -> list[tuple[Any, ...]]:
    """The changelog, but for the epochs in which its rows came."""
    found = target.rows(node)
    return sorted(
        ((r["partition"], r["offset"], str(r["key"]), str(r["value"]), r["timestamp"]) for r in found),
        key=lambda row: row[:2],
    )


@pytest.mark.prove
def test_what_is_below_a_rebuild_follows(tmp_path: Path, settings: Settings) -> None:
    first, second = chained()
    target, whole = world(tmp_path / "rebuilt", settings), world(tmp_path / "whole", settings)
    for delivery in deliveries()[:3]:
        publish(target, delivery)
        publish(whole, delivery)
        target.run(first)
        target.run(second)
    # A plan of the lower join is open when the upper one is recomputed: its offsets count other records then.
    publish(target, deliveries()[3])
    publish(whole, deliveries()[3])
    target.run(first)
    die(target, settings, "chained", "planned")
    assert target.rebuild(first) is not None
    result = target.run(second)
    assert result is not None
    assert (result.plan.incarnation, result.plan.since) == (2, result.plan.epoch)
    assert is_protected(target.runner("batch").paths(first).changelog)
    assert target.run(second) is None
    whole.run(first)
    whole.run(second)
    for node in (first, second):
        assert rows(target, node) == rows(whole, node)
        assert target.rows(node, "table") == whole.rows(node, "table") or node.name
        found = target.verified(node)
        assert found.holds, found.broken
    publish(target, deliveries()[4])
    publish(whole, deliveries()[4])
    for node in (first, second):
        target.run(node)
        whole.run(node)
        assert rows(target, node) == rows(whole, node)
        found = target.verified(node)
        assert found.holds, found.broken
        assert found.rows == len(rows(target, node))
    survived("an input recomputed", "what is below follows, its open plan is put aside")


def streams() -> Node:
    pipeline = Pipeline("late")
    a, b = (pipeline.stream(name, FILES, **COMMON) for name in ("a", "b"))
    return a.left_join(b, "ab", window=JoinWindow(10, 10, 0), select=LR)


@pytest.mark.prove
def test_a_longer_grace_takes_what_was_late(tmp_path: Path, settings: Settings) -> None:
    node, target = streams(), world(tmp_path, settings)
    spec = node.join_spec
    assert spec is not None
    target.publish(spec.left, [(("k",), ("l5",), 5, 0), (("k",), ("l50",), 50, 0)])
    target.publish(spec.right, [(("k",), ("r100",), 100, 0)])
    target.run(node)
    target.publish(spec.right, [(("k",), ("r6",), 6, 0)])
    target.run(node)
    assert [r["key"] for r in target.rows(node, "late")] != []
    assert ("l5", "r6") not in values(target, node)
    result = target.rebuild(node, grace=1_000)
    assert result is not None and result.staged
    assert result.sides["late"] == 0
    assert ("l5", "r6") in values(target, node)
    # The longer grace stays with the incarnation.
    target.publish(spec.left, [(("k",), ("l8",), 8, 0)])
    target.run(node)
    assert ("l8", "r6") in values(target, node)
    found = target.verified(node)
    assert found.holds, found.broken
    assert target.rebuild(node) is not None
    assert ("l5", "r6") not in values(target, node) or ("l8", "r6") not in values(target, node)
    survived("late records", "taken by rebuild --grace")


def values(target: World, node: Node) -> list[tuple[Any, Any]]:
    return [(r["value"]["l"], r["value"]["r"]) for r in target.rows(node)]


def test_verify_finds_a_wrong_row(tmp_path: Path, settings: Settings) -> None:
    node, target = joined(), world(tmp_path, settings)
    publish(target, deliveries()[0])
    target.run(node)
    good = target.verified(node)
    assert (good.holds, good.rows, good.differing, good.table_differs) == (True, len(target.rows(node)), 0, 0)
    path = target.runner("batch").paths(node).changelog
    wrong = read(target.spark, path).withColumn("timestamp", F.col("timestamp") + 1)
    target.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.appendOnly' = 'false')").collect()
    note = target.results[-1].note.model_dump_json()
    wrong.write.format("delta").mode("overwrite").option("userMetadata", note).save(path)
    bad = target.verified(node)
    assert bad.differing == good.rows
    assert bad.table_differs
    assert '"timestamp"' in bad.first[0]["committed"]
    survived("a wrong row", "found by verify, with its partition and offset")
