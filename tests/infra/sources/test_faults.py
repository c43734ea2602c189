"""What befalls a source between two epochs, or under one, the same for each kind.

Nothing is lost or doubled, or a run is refused, again and again, by a sentence that names what is gone and the command
that goes on. What befalls one kind alone is in its own folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.crashes import crashing_at
from tests.infra.sources.faulty import KINDS, Faulty, Refused, Topic, Versions, cured, keys, undisturbed
from tests.reliability import survived

pytestmark = pytest.mark.slow

FAULTS = {
    ("topic", "lost"): (
        "retention before records were read",
        "refused with what is gone; `accept-loss` goes on behind it",
    ),
    ("topic", "lost, planned"): (
        "retention between plan and read",
        "refused with what is gone; `accept-loss` goes on behind it",
    ),
    ("topic", "recreated"): (
        "a topic deleted, or recreated under its name",
        "refused; `accept-loss` goes on with the new one",
    ),
    **dict.fromkeys(
        [("append", "lost"), ("feed", "lost")],
        ("VACUUM of a Delta table before its versions were read", "refused with what is gone, and the cure"),
    ),
    **dict.fromkeys(
        [("append", "lost, planned"), ("feed", "lost, planned")],
        ("VACUUM of a Delta table between plan and read", "refused with what is gone, and the cure"),
    ),
    **dict.fromkeys(
        [("append", "recreated"), ("feed", "recreated")],
        ("a Delta table deleted, or recreated at its place", "refused; `accept-loss` goes on with the new one"),
    ),
    ("topic", "unplaced"): ("an epoch log that is lost", "refused: nobody knows up to where a topic was read"),
    ("database", "lost"): (
        "a replication slot dropped",
        "refused; `resnapshot` reads the table again as an incarnation",
    ),
}
"""Kind and fault to its row on the page."""


@pytest.fixture
def source(request: pytest.FixtureRequest, kind: str) -> Faulty:
    fixture, made = KINDS[kind]
    return made(request.getfixturevalue(fixture))


def note(kind: str, fault: str) -> None:
    if (kind, fault) in FAULTS:
        survived(*FAULTS[kind, fault])


def refused(source: Faulty, how: Refused) -> str:
    """Each run is refused; what the last one says."""
    error, says = how
    for _ in range(2):
        with pytest.raises(error, match=says) as found:
            source.place.run(source.table)
    source.says_so(error)
    return str(found.value)


def goes_on(source: Faulty, expected: str) -> None:
    """The rows are these, the next key is read, and then nothing is new."""
    assert keys(source) == expected
    source.put("z")
    source.place.run(source.table)
    assert keys(source) == f"{expected}z"
    assert source.place.run(source.table) is None


@pytest.mark.parametrize(
    ("kind", "expected", "rebuilt"),
    [("topic", "ad", "dz"), ("append", "ad", "abcdz"), ("feed", "acd", "cdz"), ("database", "acd", "acdz")],
)
def test_records_are_gone(source: Faulty, kind: str, expected: str, rebuilt: str) -> None:
    """Of a feed that lacks versions, nobody knows what was deleted: a rebuild reads what is there."""
    source.put("a")
    source.place.run(source.table)
    source.put("b")
    source.lose()
    assert f"`rivermeet {source.cure} shop orders`" in refused(source, source.gone)
    result = cured(source)
    assert result is not None and source.has_noted(result.plan)
    goes_on(source, expected)
    source.place.rebuild(source.table)
    assert keys(source) == rebuilt
    assert source.place.run(source.table) is None, "and goes on from there"
    note(kind, "lost")


@pytest.mark.parametrize(
    ("kind", "epochs", "expected"),
    [
        ("topic", 0, "d"),
        ("topic", 1, "ad"),
        ("append", 0, "abcd"),
        ("append", 1, "ad"),
        ("feed", 0, "cd"),
        ("feed", 1, "acd"),
        ("database", 1, "acd"),
    ],
)
def test_records_are_gone_between_plan_and_read(source: Faulty, kind: str, epochs: int, expected: str) -> None:
    """The plan that stands can be read no more: a refusal, and no other rows; it is put aside once that is accepted."""
    source.put("a")
    for _ in range(epochs):
        source.place.run(source.table)
    source.put("b")
    with crashing_at("planned"):
        source.place.run(source.table)
    source.lose()
    refused(source, source.gone)
    result = cured(source)
    assert result is not None and (kind == "database" or result.plan.epoch == epochs + 2)
    goes_on(source, expected)
    note(kind, "lost, planned")


@pytest.mark.parametrize("kind", ["topic", "append", "feed", "database"])
def test_it_is_made_anew(source: Faulty, kind: str) -> None:
    source.put("a", "b")
    source.place.run(source.table)
    source.go()
    refused(source, source.missing)
    source.return_()
    refused(source, source.remade)
    assert kind == "database" or source.place.step(source.table).describe_loss() is not None, (
        "a rebuild would not find all"
    )
    cured(source)
    goes_on(source, "xy" if kind == "database" else "abxy")
    note(kind, "recreated")


def recreate(source: Topic | Versions) -> None:
    source.go()
    source.return_()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("gone", "topic"), ("gone", "append"), ("remade", "topic"), ("remade", "append"), ("remade", "feed")],
)
def test_while_it_is_read(source: Topic | Versions, kind: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that meets it is refused, and none commits what is not of its plan."""
    happens: Callable[[], None] = source.lose if fault == "gone" else lambda: recreate(source)
    source.put("a")
    source.place.run(source.table)
    source.put("b")
    asked = source.ingest.unreadable

    def late(*given: Any) -> Any:
        found = asked(*given)
        monkeypatch.setattr(source.ingest, "unreadable", asked)
        happens()
        return found

    monkeypatch.setattr(source.ingest, "unreadable", late)
    with pytest.raises(source.while_read):
        source.place.run(source.table, **({"patience": 5.0} if kind == "topic" else {}))
    assert keys(source) == "a"
    refused(source, getattr(source, fault))
    cured(source)
    goes_on(source, "ad" if fault == "gone" else "axy")


@pytest.mark.parametrize("kind", ["topic", "append"])
def test_an_epoch_log_that_is_lost(source: Topic | Versions, kind: str) -> None:
    """To begin again would be to read everything twice."""
    source.put("a")
    source.place.run(source.table)
    shutil.rmtree(source.place.world.root / "epochs")
    assert "`rivermeet rebuild shop --select orders`" in refused(source, source.unplaced)
    note(kind, "unplaced")


KILLED = [
    *(("topic", point) for point in ("landed", "committed")),
    *(("feed", point) for point in ("planned", "committed")),
    *(
        pytest.param(kind, point, marks=pytest.mark.prove)
        for kind, points in {
            "topic": ("planned", "computed", "sides-written", "recorded"),
            "feed": ("computed", "recorded"),
            "append": ("planned", "computed", "committed", "recorded"),
        }.items()
        for point in points
    ),
]


@pytest.mark.parametrize(("kind", "point"), KILLED)
def test_killed_at_every_point(source: Topic | Versions, kind: str, point: str) -> None:
    """What comes meanwhile belongs to the next epoch; nothing is lost or doubled."""
    table, place = source.table, source.place
    whole = undisturbed(table)
    source.put("a", "b")
    with crashing_at(point):
        place.run(table)
    place.run(whole)
    source.put("c")
    source.tidy()
    while place.run(table) is not None:
        pass
    place.run(whole)
    assert place.world.rows(table) == place.world.rows(whole)
    landed = place.world.root / "landing" / table.name
    assert not landed.exists() or len([*landed.iterdir()]) == 1, "dead attempts leave no files"
    what = "topic" if kind == "topic" else "Delta table"
    survived(f"kill of a {what}'s epoch, {point}", "the next run ends in the rows of an undisturbed one")
