"""A family from outside is declared, registered or installed, and then treated as any other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.defs.lineage import column_lineage
from rivermeet.assets.epoch.explain import explain
from rivermeet.assets.epoch.verify import verify
from rivermeet.assets.refused.states import UndecidableError, loss
from rivermeet.assets.reports.quality_report import write_report
from rivermeet.assets.why.changelogs import Changelogs
from rivermeet.assets.why.records import Expressions
from rivermeet.assets.why.walk import Walk
from rivermeet.expectations.invariants import invariants_of
from rivermeet.infra.delta.io import read
from rivermeet.infra.settings import Settings
from rivermeet.joins.reference.records import Row
from rivermeet.joins.why import generic
from rivermeet.pipelines.family import families, family_of, register
from tests import toy_family
from tests.assets.home import Home, homed
from tests.builders import csv_file
from tests.joins.why.given import Given
from tests.reference.histories import records_of
from tests.toy_family import FAMILY, declared, installed, registered

TOY = declared()
BOTH = TOY.node("both")


def test_lineage_and_graph_say_what_it_is_made_of() -> None:
    found = column_lineage(BOTH)
    assert found is not None
    (dep,) = found.deps_by_column["value.tagged"]
    assert (dep.asset_key, dep.column_name) == (changelog_key(TOY.node("one")), "value.v")
    assert BOTH.operation.description == "Tagged of stream `one` and stream `two`, each with its side."  # pyright: ignore


def test_what_a_dropped_epoch_loses_is_its_own_to_say() -> None:
    with pytest.raises(UndecidableError, match="one without a tag is missed"):
        loss(BOTH)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[Home]:
    with installed(tmp_path_factory.mktemp("path")), homed(TOY, tmp_path_factory.mktemp("toy"), settings) as found:
        yield found


def test_it_is_found_by_its_name_however_it_is_made_known(tmp_path: Path) -> None:
    assert BOTH.operation is not None
    with pytest.raises(LookupError, match="no family 'tagged' is registered"):
        family_of(BOTH.operation)
    for way in (registered(), installed(tmp_path)):
        with way:
            assert family_of(BOTH.operation) is FAMILY and families()["tagged"] is FAMILY
    assert "tagged" not in families()


def test_a_name_is_given_once(tmp_path: Path) -> None:
    other = replace(FAMILY, why="tests.another")
    with registered(), pytest.raises(ValueError, match="a family 'tagged' already: give Tagged another name"):
        register(other)
    with installed(tmp_path, "filter"), pytest.raises(ValueError, match="toy_family:FAMILY gives a family 'filter'"):
        families()


def test_an_entry_point_has_the_name_of_its_family(tmp_path: Path) -> None:
    with installed(tmp_path, "tags"), pytest.raises(LookupError, match=r"'tags' of .* gives the family 'tagged'"):
        families()


def test_its_own_rules_are_judged_beside_those_of_all() -> None:
    with registered():
        rules = {rule.id for rule in invariants_of(BOTH)}
    assert rules >= {"tagged_by_its_side", "processing_order", "one_row_per_cause", "dense_offsets", "record_shape"}


def test_without_words_its_rules_are_said_and_without_a_reference_its_trigger() -> None:
    history = records_of([("left", "a", "x", 1), ("right", "a", None, 2), ("left", "b", "y", 3)])
    trigger, given = history[0], Given(BOTH, history)
    row = Row(("a",), {"tagged": "left: x"}, 1, trigger.position)
    with registered(replace(FAMILY, why=generic.__name__)):
        made = given.made(row)
        assert (made.says, [part.offset for part in made.parts.values() if part]) == ((), [0])
        assert given.missing("a") == {"unexplained", "null-value"} and given.missing("z") == {"no-left", "no-right"}
    with registered(replace(FAMILY, reference=None)):
        assert given.made(row).says == ("what else a tagged made it of is not explained",)
        assert given.missing("a") == {"unexplained"}


def deliver(home: Home, name: str, *lines: str) -> None:
    folder = home.data / name
    csv_file(folder / f"{len([*folder.glob('*')])}.csv", "k,v,at", *lines)


@pytest.mark.slow
def test_it_is_planned_run_checked_and_shown(home: Home) -> None:
    deliver(home, "one", "a,x,1", "b,z,5")
    deliver(home, "two", "a,y,3")
    assert home.run(), home.said
    deliver(home, "two", "c,w,7")
    assert home.run(), home.said
    assert any(line.startswith("  both") and "epoch 2: 1 row; " in line for line in home.said), home.said

    context = home.project.context(TOY)
    rows = read(home.project.sessions.open(), context.paths(BOTH).changelog).orderBy("offset")
    found = [(row.key.k, row.value.tagged, row.trigger.side, row.epoch) for row in rows.collect()]
    assert found == [
        ("a", "left: x", "left", 1),
        ("a", "right: y", "right", 1),
        ("b", "left: z", "left", 1),
        ("c", "right: w", "right", 2),
    ]
    verified = verify(context, BOTH)
    assert verified is not None and (verified.rows, verified.differing) == (4, 0)

    status = next(line for line in status_table(home.project, TOY).splitlines() if line.startswith("both"))
    assert status.split()[1:4] == ["stream", "2", "4"] and status.endswith("passed")
    page, _ = write_report(home.project, [TOY])
    text = page.read_text("utf-8")
    assert "both" in text and "Tagged of stream one and stream two" in text
    deliver(home, "one", "d,q,9")
    assert "  plan     after one, whose new records come on top" in [*explain(home.project, TOY)]


@pytest.mark.slow
def test_its_rows_are_explained_by_its_own_words(home: Home) -> None:
    walk = Walk(Changelogs(home.project), Expressions(None))
    (row,) = walk.why(BOTH, {"k": "b"}, 10).rows
    assert row.says == ("it is tagged left",)
    assert [(cause.node, cause.role) for cause in row.causes] == [("one", "trigger")]
    absent = walk.why(BOTH, {"k": "z"}, 10).absent
    assert [(one.code, one.says) for one in absent] == [
        ("no-left", "nothing to tag: 'one' has no record of k=z"),
        ("no-right", "nothing to tag: 'two' has no record of k=z"),
    ]


@pytest.mark.slow
def test_an_epoch_that_breaks_its_rule_is_not_committed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    context = home.project.context(TOY)
    before = read(home.project.sessions.open(), context.paths(BOTH).changelog).count()
    monkeypatch.setattr(toy_family, "NAMES", {"left": "right", "right": "left"})
    deliver(home, "two", "e,x,11")
    assert not home.run()
    assert any("tagged_by_its_side" in line for line in home.said), home.said
    assert read(home.project.sessions.open(), context.paths(BOTH).changelog).count() == before
