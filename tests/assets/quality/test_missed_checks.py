"""A run that was killed between its commit and its checks: the next one judges the epoch, and no other twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc
import pytest

from rivermeet.assets.epoch.idle import is_idle
from rivermeet.assets.epoch.materialise import materialise
from rivermeet.assets.epoch.operator_step import step_of
from rivermeet.assets.epoch.run import run_epoch
from rivermeet.assets.quality import judge, judge_committed
from rivermeet.assets.quality.quality_table import quality_lines
from rivermeet.expectations.results import InvariantResult
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Node, Pipeline
from tests.assets.home import Home, homed
from tests.builders import csv_file

pytestmark = pytest.mark.timeout(300)

PIPELINE = Pipeline("missed")
FILES = Files("orders/*.csv", "csv", {"id": "STRING", "amount": "INT", "at": "BIGINT"})
ORDERS = PIPELINE.stream("orders", FILES, key=["id"], timestamp="at", partitions=1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[Home]:
    with homed(PIPELINE, tmp_path_factory.mktemp("missed"), settings) as found:
        yield found


def deliver(home: Home, epoch: int) -> None:
    csv_file(home.data / "orders" / f"{epoch}.csv", "id,amount,at", f"k,{epoch},{epoch}")


def commit_alone(home: Home, node: Node) -> None:
    """What a run has done that was killed after its fold."""
    run_epoch(replace(home.project.context(PIPELINE), quality=None), step_of(home.project, node))


def judged(home: Home) -> Counter[int]:
    """Epoch to how often its changelog's density was judged; it is one of the checks after the commit."""
    lines = quality_lines(home.project.quality, pc.field("invariant") == "dense_changelog")
    assert {line["state"] for line in lines} <= {"passed"}
    return Counter(line["epoch"] for line in lines)


@pytest.mark.slow
def test_the_next_run_judges_what_a_killed_one_committed(home: Home) -> None:
    deliver(home, 1)
    commit_alone(home, ORDERS)
    assert judged(home) == {}
    # Nothing is new.
    assert materialise(home.project, ORDERS, "next").result is None
    assert any("its run ended without all its checks" in line for line in home.said)
    assert judged(home) == {1: 1}

    deliver(home, 2)
    commit_alone(home, ORDERS)
    deliver(home, 3)
    assert materialise(home.project, ORDERS, "after").result is not None
    assert judged(home) == {1: 1, 2: 1, 3: 1}
    home.said.clear()
    assert materialise(home.project, ORDERS, "idle").result is None
    assert judged(home) == {1: 1, 2: 1, 3: 1}
    assert not any("checks" in line for line in home.said)


@pytest.mark.slow
def test_what_could_not_be_evaluated_is_judged_once_more(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where an executor was lost with the rows that a check wanted; a query that always fails is tried twice."""

    def lost(*given: Any) -> list[InvariantResult]:
        return [
            replace(one, checked=None, violations=None, error="the executor is lost")
            for one in judge.judge_commit(*given)
        ]

    def states(epoch: int) -> list[str]:
        which = (pc.field("invariant") == "dense_changelog") & (pc.field("epoch") == epoch)
        return [line["state"] for line in quality_lines(home.project.quality, which)]

    def run(name: str) -> bool:
        home.said.clear()
        materialise(home.project, ORDERS, name)
        return any("ended without all its checks" in line for line in home.said)

    deliver(home, 4)
    with monkeypatch.context() as once:
        once.setattr(judge_committed, "judge_commit", lost)
        assert not run("lost") and not is_idle(home.project, [ORDERS])
    assert states(4) == ["not evaluated"]
    assert run("again") and is_idle(home.project, [ORDERS])
    assert sorted(states(4)) == ["not evaluated", "passed"]
    assert not run("idle")

    deliver(home, 5)
    with monkeypatch.context() as always:
        always.setattr(judge_committed, "judge_commit", lost)
        assert (run("lost"), run("again"), run("idle")) == (False, True, False)
    assert states(5) == ["not evaluated"] * 2

    # As a step of Dagster that has nothing new.
    deliver(home, 6)
    with monkeypatch.context() as once:
        once.setattr(judge_committed, "judge_commit", lost)
        assert not run("lost")
    found = judge_committed.states_of(home.project.context(PIPELINE), ORDERS, 6, "confirmed")
    assert found["dense_changelog"].state == "passed" and is_idle(home.project, [ORDERS])
