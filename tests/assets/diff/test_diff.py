"""`rivermeet diff`: what is declared otherwise, what it and the nodes below would have, and that nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from rivermeet.assets.cli.main import main
from rivermeet.assets.diff.compare import Difference, Example, compare
from rivermeet.assets.diff.compute import DiffError, compute_changed, find_changed
from rivermeet.assets.diff.options import Options
from rivermeet.assets.sql.query import CommittedState
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.engine.session import new_session
from rivermeet.pipelines import DeclarationError, Files, JoinWindow, Pipeline
from tests.world import World

FILES = Files("none", "csv", {"k": "STRING", "v": "STRING", "ts": "BIGINT"})
TYPES = "key STRUCT<k: STRING>, value STRUCT<v: STRING>"
KEYED: dict[str, Any] = {"key": ["k"], "value": ["v"], "timestamp": "ts", "partitions": 1}


def shop() -> Pipeline:
    """A stream join, a table of its rows below, and a table beside them."""
    pipeline = Pipeline("shop")
    orders, payments = (pipeline.stream(name, FILES, **KEYED) for name in ("orders", "payments"))
    select = {"order": "left.v", "paid": "right.v"}
    settled = orders.left_join(payments, "settled", window=JoinWindow(0, 5), select=select)
    settled.to_table("latest")
    orders.to_table("beside")
    return pipeline


@pytest.mark.parametrize(
    ("options", "selected", "says"),
    [
        (Options(window=(0, 9)), ["latest"], "a to-table has no window of two streams"),
        (Options(grace=5), ["beside"], "has no windows, and no grace that could be longer"),
        (Options(semantics="0.10.0"), ["latest"], "a to-table has no profiles"),
        (Options(window=(-9, 0)), ["settled"], "window ends before it starts"),
    ],
)
def test_an_option_that_a_node_does_not_have(options: Options, selected: list[str], says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        options.apply(shop(), selected)


def test_an_option_goes_wherever_it_fits() -> None:
    changed = Options(semantics="kafka-4", grace=7).apply(shop(), [])
    join: Any = changed.node("settled").operation
    assert (join.semantics, join.window.grace, join.window.after) == ("kafka-4", 7, 5)
    assert [node.name for node in changed.downstream([changed.node("settled")])] == ["settled", "latest"]


def test_a_home_without_rows_has_nothing_to_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIVERMEET_HOME", str(tmp_path))
    said = CliRunner().invoke(main, ["diff", "invoice"])
    says = "Error: no computed node of 'invoice' has rows to compare with: run `rivermeet run invoice` first\n"
    assert (said.exit_code, said.output) == (1, says), "a check that has nothing to look at must not pass"
    said = CliRunner().invoke(main, ["diff", "invoice", "--window", "1h"])
    assert said.exit_code == 2 and "'1h' is no window: give BEFORE,AFTER, such as 0s,2h" in said.output


def versions(made: World, pipeline: Pipeline) -> dict[str, int]:
    paths = {node.name: made.runner("shop").paths(node).changelog for node in pipeline.stored}
    return {name: table.version() for name, path in paths.items() if (table := open_table(path)) is not None}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_wider_window(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = shop()
    made = World(tmp_path / "home", spark, new_session(spark), {"orders": TYPES, "payments": TYPES})
    computed_nodes = [node for node in pipeline.stored if node.operation is not None]
    # By epochs: the payment of o2 comes nine late, in an epoch after the one that o2 left with.
    for orders, payments in (
        ([("o1", 0), ("o2", 1), ("o9", 20)], [("o1", 2)]),
        ([("o3", 30)], [("o2", 10), ("o3", 31), ("o3", 38)]),
    ):
        made.publish(pipeline.node("orders"), [((k,), (f"of {k}",), at, 0) for k, at in orders])
        made.publish(pipeline.node("payments"), [((k,), (f"at {at}",), at, 0) for k, at in payments])
        for node in computed_nodes:
            made.run(node)
    before, context = versions(made, pipeline), made.runner("shop")
    assert find_changed(context, pipeline) == []

    def differences(wanted: Pipeline) -> dict[str, Difference]:
        stands = CommittedState(context.tables, str(tmp_path / "quality"))
        node = wanted.node("settled")
        with compute_changed(context, wanted, [node]) as scratch:
            would_be = CommittedState(scratch.tables, str(tmp_path / "quality"))
            return {
                one.name: compare(one, stands, would_be, "1g", tmp_path / "spill") for one in wanted.downstream([node])
            }

    wider = Options(window=(0, 9)).apply(pipeline, ["settled"])
    assert [node.name for node in find_changed(context, wider)] == ["settled"]
    found = differences(wider)
    # o2 had left with an epoch that moved stream time beyond either window: what is cut otherwise is no difference.
    assert found["settled"].counts == {"come": 1, "go": 0, "change": 0}
    assert found["settled"].examples == [Example("come", '{"k":"o3"}', None, '{"order":"of o3","paid":"at 38"}')]
    assert (found["settled"].stays, found["latest"].counts) == (4, {"come": 0, "go": 0, "change": 1})
    assert versions(made, pipeline) == before
    # The same declaration, computed again, has the same rows.
    assert not any(one.differs for one in differences(pipeline).values())
    # What is not read yet would be taken for a difference.
    made.publish(pipeline.node("payments"), [(("o9",), ("late",), 22, 0)])
    with pytest.raises(DiffError, match=r"'shop\.settled' has not read all of 'payments'"):
        differences(wider)
