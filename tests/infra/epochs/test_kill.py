"""SIGKILL at every step of the commit protocol: the next run ends in the same rows as an undisturbed one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rivermeet.infra import crash
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Node
from tests.crashes import EITHER, How
from tests.infra.epochs.killed import data, deliver, die, ingested, joined, maintained, once, rebuilt, side_rows, world
from tests.reliability import survived
from tests.world import Record, World

pytestmark = [pytest.mark.both_engines, pytest.mark.timeout(1800)]

EPOCH = ("join", "ingest")
TRIED: Mapping[str, tuple[str, ...]] = {
    "planned": (*EPOCH, "rebuild"),
    "landed": ("topic",),
    "computed": EPOCH,
    "sides-written": (*EPOCH, "rebuild"),
    "committed": EPOCH,
    "recorded": EPOCH,
    "merged": (*EPOCH, "rebuild"),
    "folded": (*EPOCH, "rebuild"),
    "refused": ("rebuild",),
    "decided": ("release", "drop"),
    "rebuilt": ("rebuild",),
    "maintained": ("maintenance",),
    **dict.fromkeys(("slot-named", "slot-made", "snapshot-noted", "advanced"), ("database",)),
    **dict.fromkeys(("sending", "marked", "delivered"), ("sink",)),
}
"""Crash point to what is killed there.

Of databases in ``tests/infra/sources/postgres/test_kill.py``, of topics in
``tests/infra/sources/test_faults.py`` and ``tests/infra/sinks/test_delivery.py``, of held epochs in
``tests/assets/quality/test_quarantine.py``.
"""
Delivery = tuple[list[Record], list[Record], list[dict[str, Any] | str]]


def deliveries() -> list[Delivery]:
    """One per crash point of an epoch.

    Left and right of the join: inserts, moves, deletes, a right row that comes late and goes again. Then the lines of
    the source's file, a bad one in each.
    """
    records: list[tuple[list[Record], list[Record]]] = [
        ([(("p",), ("f",), 1, 0), (("q",), ("g",), 2, 1)], [(("f",), ("F",), 1, 0)]),
        ([(("p",), ("g",), 3, 0)], []),
        ([], [(("g",), ("G",), 4, 1)]),
        ([(("q",), None, 5, 1), (("r",), ("f",), 5, 2)], [(("f",), ("F2",), 6, 0)]),
        ([(("q",), ("f",), 7, 1)], [(("g",), None, 8, 1)]),
        ([(("r",), ("g",), 9, 2)], [(("g",), ("G2",), 9, 1)]),
        ([(("p",), None, 10, 0)], [(("f",), ("F3",), 11, 0)]),
    ]
    return [(left, right, lines(n)) for n, (left, right) in enumerate(records)]


def lines(n: int) -> list[dict[str, Any] | str]:
    """A new key, one that each file changes, and a line that is no record."""
    return [{"k": f"k{n}", "v": "new", "ts": n}, {"k": "same", "v": str(n), "ts": n}, '{"k": "torn']


def publish(target: World, delivery: Delivery) -> None:
    join = joined().join_spec
    assert join is not None
    target.publish(join.left, delivery[0])
    target.publish(join.right, delivery[1])


def test_every_point_is_tried() -> None:
    assert set(TRIED) == set(crash.POINTS)


def points(what: str) -> list[str]:
    return [point for point, tried in TRIED.items() if what in tried]


def same(disturbed: World, undisturbed: World, node: Node, point: str, *aside: str) -> None:
    """All rows of the node's tables, but for columns that may differ."""
    for table in ("changelog", "table"):
        found, expected = (
            [{c: v for c, v in row.items() if c not in aside} for row in here.rows(node, table)]
            for here in (disturbed, undisturbed)
        )
        assert found == expected, (point, table)
    assert side_rows(disturbed, node) == side_rows(undisturbed, node), point


def killed_by(what: str, point: str, by: How) -> How:
    """Of a join, SIGKILL where a query of the epoch or of its fold may be going on."""
    return "SIGKILL" if what == "join" and point in ("computed", "committed", "merged") else by


@pytest.mark.slow
@EITHER
@pytest.mark.parametrize("what", ["join", pytest.param("ingest", marks=pytest.mark.prove)])
def test_killed_at_every_point_of_an_epoch(tmp_path: Path, settings: Settings, what: str, by: How) -> None:
    disturbed, undisturbed = world(tmp_path / "killed", settings), world(tmp_path / "whole", settings)
    node = joined() if what == "join" else ingested()
    for n, (point, delivery) in enumerate(zip(points(what), deliveries(), strict=True)):
        if what == "join":
            publish(disturbed, delivery)
            publish(undisturbed, delivery)
        else:
            deliver(data(disturbed) / "people" / f"{n}.jsonl", delivery[2])
        once(undisturbed, node)
        die(disturbed, settings, what, point, killed_by(what, point, by))
        # What the kill left behind is finished or found finished, and then nothing is new.
        once(disturbed, node)
        assert once(disturbed, node) is None, point
        same(disturbed, undisturbed, node, point)
        survived(f"kill -9 of an epoch, {point}", "the next run ends in the rows of an undisturbed one")


@pytest.mark.prove
@EITHER
def test_killed_at_every_point_of_a_rebuild(tmp_path: Path, settings: Settings, by: How) -> None:
    """What the next run makes of it is the rebuilt changelog, or the old one where the kill came before the plan."""
    disturbed, undisturbed = world(tmp_path / "killed", settings), world(tmp_path / "whole", settings)
    node = joined()
    for here in (disturbed, undisturbed):
        for delivery in deliveries()[:3]:
            publish(here, delivery)
            once(here, node)
    rebuilt(undisturbed)
    for point in points("rebuild"):
        if point == "refused":
            # A plan that the rebuild puts aside.
            publish(disturbed, deliveries()[3])
            publish(undisturbed, deliveries()[3])
            die(disturbed, settings, "join", "planned", by)
            rebuilt(undisturbed)
        die(disturbed, settings, "rebuild", point, by)
        if point == "refused":
            rebuilt(disturbed)
        once(disturbed, node)
        assert once(disturbed, node) is None, point
        same(disturbed, undisturbed, node, point, "epoch")
        survived(f"kill -9 of a rebuild, {point}", "the next run ends in the rows of an undisturbed one")
    for here in (disturbed, undisturbed):
        for delivery in deliveries()[4:]:
            publish(here, delivery)
            once(here, node)
    same(disturbed, undisturbed, node, "after the rebuilds", "epoch")


@pytest.mark.prove
@EITHER
def test_killed_in_maintenance(tmp_path: Path, settings: Settings, by: How) -> None:
    """Between OPTIMIZE and VACUUM, also while a plan stands that was made before."""
    disturbed, undisturbed = world(tmp_path / "killed", settings), world(tmp_path / "whole", settings)
    node = joined()
    for n, delivery in enumerate(deliveries()[:4]):
        publish(disturbed, delivery)
        publish(undisturbed, delivery)
        once(undisturbed, node)
        if n == 3:
            die(disturbed, settings, "join", "planned", by)
        else:
            once(disturbed, node)
    die(disturbed, settings, "maintenance", f"maintained:{node.name}", by)
    once(disturbed, node)
    same(disturbed, undisturbed, node, "maintained")
    maintained(disturbed)
    publish(disturbed, deliveries()[4])
    publish(undisturbed, deliveries()[4])
    for here in (disturbed, undisturbed):
        once(here, node)
    same(disturbed, undisturbed, node, "maintained")
    survived("kill -9 of maintenance, between OPTIMIZE and VACUUM", "rows and the standing plan as without it")


@pytest.mark.prove
@EITHER
def test_killed_again_and_again_before_the_commit(tmp_path: Path, settings: Settings, by: How) -> None:
    """The plan that was logged first is the one that runs, also when more has arrived since."""
    target, node = world(tmp_path / "killed", settings), joined()
    publish(target, deliveries()[0])
    die(target, settings, "join", "planned", by)
    publish(target, deliveries()[1])
    die(target, settings, "join", "sides-written", by)
    result = once(target, node)
    assert result is not None
    assert {side: part.records for side, part in result.plan.inputs.items()} == {"left": 2, "right": 1}
    second = once(target, node)
    assert second is not None
    assert second.plan.epoch == 2
    assert [row["epoch"] for row in target.rows(node)] == [1, 1, 1, 2]
