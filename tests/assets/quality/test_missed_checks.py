"""A run that was killed between its commit and its checks: the next one judges the epoch, and no other twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pyarrow.compute as pc
import pytest

from assets.epoch.materialise import materialise
from assets.epoch.run import run_epoch
from assets.quality.quality_table import quality_lines
from infra.settings import Settings
from pipelines import Files, Node, Pipeline
from tests.assets.home import Home, homed

pytestmark = pytest.mark.timeout(300)

PIPELINE = Pipeline("missed")
FILES = Files("orders/*.csv", "csv", {"id": "STRING", "amount": "INT", "at": "BIGINT"})
ORDERS = PIPELINE.stream("orders", FILES, key=["id"], timestamp="at", partitions=1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[Home]:
    with homed(PIPELINE, tmp_path_factory.mktemp("missed"), settings) as found:
        yield found


def deliver(home: Home, epoch: int) -> None:
    folder = home.data / "orders"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{epoch}.csv").write_text(f"id,amount,at\nk,{epoch},{epoch}\n")


def commit_alone(home: Home, node: Node) -> None:
    """What a run has done that was killed after its fold."""
    run_epoch(replace(home.platform.runner(PIPELINE), quality=None), home.platform.step(node))


def judged(home: Home) -> Counter[int]:
    """Epoch to how often its changelog's density was judged; it is one of the checks after the commit."""
    lines = quality_lines(home.platform.quality, pc.field("invariant") == "dense_changelog")
    assert {line["state"] for line in lines} <= {"passed"}
    return Counter(line["epoch"] for line in lines)


@pytest.mark.slow
def test_the_next_run_judges_what_a_killed_one_committed(home: Home) -> None:
    deliver(home, 1)
    commit_alone(home, ORDERS)
    assert judged(home) == {}
    # Nothing is new.
    assert materialise(home.platform, ORDERS, "next").result is None
    assert any("its run ended before its checks" in line for line in home.said)
    assert judged(home) == {1: 1}

    deliver(home, 2)
    commit_alone(home, ORDERS)
    deliver(home, 3)
    assert materialise(home.platform, ORDERS, "after").result is not None
    assert judged(home) == {1: 1, 2: 1, 3: 1}
    home.said.clear()
    assert materialise(home.platform, ORDERS, "idle").result is None
    assert judged(home) == {1: 1, 2: 1, 3: 1}
    assert not any("checks" in line for line in home.said)
