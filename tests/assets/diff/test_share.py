"""`rivermeet diff --share`: some partitions alone, and the same of them as of all."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from rivermeet.assets.cli.main import main
from rivermeet.assets.diff.compare import Difference, compare
from rivermeet.assets.diff.compute import Sample, compute_changed, find_sampled, samples
from rivermeet.assets.diff.options import Options
from rivermeet.assets.sql.query import CommittedState
from rivermeet.infra.engine.session import new_session
from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline, count, expr
from tests.world import World

FILES = Files("none", "csv", {"k": "STRING", "v": "STRING", "ts": "BIGINT"})
TYPES = "key STRUCT<k: STRING>, value STRUCT<v: STRING>"
KEYED: dict[str, Any] = {"key": ["k"], "value": ["v"], "timestamp": "ts", "partitions": 4}


def shop(pipeline: Pipeline) -> Node:
    """A stream join, and below it what stays in a partition, what reads one side whole, and a look-up."""
    orders, payments = (pipeline.stream(name, FILES, **KEYED) for name in ("orders", "payments"))
    places = pipeline.table("places", FILES, **KEYED)
    select = {"ordered": "left.v", "paid": "right.v"}
    settled = orders.left_join(payments, "settled", window=JoinWindow(0, 5), select=select)
    latest = settled.to_table("latest")
    latest.left_join(places, "placed", foreign_key={"k": "ordered"}, select={"place": "right.v", "paid": "left.paid"})
    settled.join(places, "seen", select={"paid": "left.paid", "place": "right.v"})
    return settled


def names(nodes: list[Node]) -> list[str]:
    return [node.name for node in nodes]


def test_nodes_that_partitions_can_be_computed_of() -> None:
    pipeline = Pipeline("shop")
    settled = shop(pipeline)
    affected = pipeline.downstream([settled])
    assert names(find_sampled(affected)) == names(affected) == ["settled", "latest", "placed", "seen"]


@pytest.mark.parametrize("what", ["the keys of a group", "the right table of a foreign-key join", "a wait for all"])
def test_what_is_read_whole_is_computed_whole(what: str) -> None:
    pipeline = Pipeline("shop")
    settled = shop(pipeline)
    latest: Any = pipeline.node("latest")
    places: Any = pipeline.node("places")
    if what == "the keys of a group":
        latest.group_by({"paid": expr("paid", "STRING")}).aggregate({"n": count()}, "of_paid")
        whole = {"settled", "latest", "of_paid"}
    elif what == "a wait for all":
        latest.left_join(places, "late", foreign_key={"k": "ordered"}, select={"x": "right.v"}, max_task_idle_ms=None)
        whole = {"settled", "latest", "late"}
    else:
        places.left_join(latest, "back", foreign_key={"k": "v"}, select={"paid": "right.paid"})
        whole = {"settled", "latest"}
    affected = pipeline.downstream([settled])
    assert {*names(affected)} - {*names(find_sampled(affected))} == whole


@pytest.mark.parametrize(
    ("sample", "says"),
    [(Sample((0,), 1), "all keys"), (Sample((0, 4), 8), "keys of 2 of 8 partitions")],
)
def test_what_was_compared_is_said(sample: Sample, says: str) -> None:
    assert str(sample) == says


@pytest.mark.parametrize("text", ["0", "3/2", "1/0", "some"])
def test_no_share(text: str) -> None:
    said = CliRunner().invoke(main, ["diff", "invoice", "--share", text])
    assert said.exit_code == 2 and f"'{text}' is no share: give a fraction of 1, such as 1/16" in said.output


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_differences_are_those_of_all_keys_in_these_partitions(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = Pipeline("shop")
    settled = shop(pipeline)
    given: dict[str, str] = dict.fromkeys(("orders", "payments", "places"), TYPES)
    made = World(tmp_path / "home", spark, new_session(spark), given)
    # Stream time of one partition alone closes windows there: with other partitions' records nothing of it changes.
    for epoch in range(2):
        orders = [((f"o{p}{n}",), (f"p{n}",), 10 * n + p, p) for p in range(4) for n in range(2 * epoch, 2 * epoch + 2)]
        payments = [((f"o{p}{n}",), (f"paid {n}",), 10 * n + p + 7, p) for p in range(4) for n in range(2 * epoch + 1)]
        made.publish(pipeline.node("orders"), orders)
        made.publish(pipeline.node("payments"), payments)
        made.publish(pipeline.node("places"), [((f"p{n}",), (f"place {n}",), n, n % 4) for n in range(4)])
        for node in pipeline.stored:
            if node.operation is not None:
                made.run(node)
    wider = Options(window=(0, 8)).apply(pipeline, [settled.name])
    changed = [wider.node("settled")]
    affected, context = wider.downstream(changed), made.runner("shop")
    some = samples(context, affected, Fraction(1, 2))
    assert some == dict.fromkeys(("settled", "latest", "placed", "seen"), Sample((0, 2), 4))
    stands = CommittedState(context.tables, str(tmp_path / "quality"))

    def differences(sample: dict[str, Sample]) -> dict[str, Difference]:
        with compute_changed(context, wider, changed, sample) as scratch:
            would_be = CommittedState(scratch.tables, str(tmp_path / "quality"))
            return {
                one.name: compare(one, stands, would_be, "1g", tmp_path / "spill", 99, some[one.name].partitions)
                for one in affected
            }

    share, whole = differences(dict(some)), differences({})
    assert share["settled"].differs and share["latest"].differs and share["placed"].differs
    assert share == whole
