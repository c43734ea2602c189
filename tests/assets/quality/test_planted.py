"""Every kind of violation, planted in real runs: Dagster, the page and Data Docs show all of them, and nothing else.

Three runs of one pipeline: a clean delivery, one into code with bugs (``tests/assets/quality/planted.py``), and by
corrected code checks alone, of all that the tables hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

from rivermeet.assets.cli.main import main
from rivermeet.assets.quality.quality_table import quality_lines
from rivermeet.assets.reports.quality_report import write_report
from rivermeet.expectations.invariants import ALL, invariants_of
from rivermeet.infra.settings import Settings
from tests.assets.home import Home, asked, homed
from tests.assets.places import Shown, shown
from tests.assets.quality.bugs import plant
from tests.assets.quality.planted import BUGS, EVERYWHERE, REFUSED, VIOLATED
from tests.assets.quality.planted_pipeline import PIPELINE, deliver
from tests.browser import needs_chromium
from tests.offline_page import offline_page

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800), needs_chromium]

RULES = {(node.name, rule.id): rule for node in PIPELINE.stored for rule in invariants_of(node)}
PLACES = ("Dagster", "page", "Data Docs")
AGAIN = ("seen", "kept", "both", "stock", "shelf", "orders", "noise", "named_refused")
"""Nodes whose checks are run once more, alone; of the last two an epoch is held."""


@dataclass(frozen=True)
class Runs:
    """The pipeline's home, and what was shown after each run."""

    home: Home
    clean: Shown
    planted: Shown
    alone: Shown


@pytest.fixture(scope="module")
def runs(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with offline_page() as chromium, homed(PIPELINE, tmp_path_factory.mktemp("planted"), settings) as home:

        def after_run() -> Shown:
            return shown(home, home.instance.get_runs(limit=1)[0].run_id, chromium)

        deliver(home.data, 1)
        assert home.run(), home.said
        clean = after_run()
        deliver(home.data, 2)
        with pytest.MonkeyPatch.context() as patched:
            plant(patched, BUGS)
            assert not home.run()
        planted = after_run()
        home.checks_of([PIPELINE.node(name) for name in AGAIN])
        yield Runs(home, clean, planted, after_run())


OF_TOPICS = {"one_partition_per_key", "equal_keys_meet"}
"""Rules of what keeps its topic's partitions; planted in topics (test_partitions_of_keys)."""


def test_every_invariant_is_planted() -> None:
    assert {invariant for _, invariant in VIOLATED} | OF_TOPICS >= {invariant.id for invariant in ALL}
    assert RULES.keys() >= VIOLATED.keys()
    # No bug hides behind another: each breaks what no other breaks.
    broken = [(bug.node, invariant) for bug in BUGS for invariant in bug.breaks.split()]
    assert len(broken) == len(set(broken))


def test_a_clean_run_is_green_in_every_place(runs: Runs) -> None:
    everything = dict.fromkeys(RULES, "passed")
    assert runs.clean.dagster == everything
    assert runs.clean.page == everything
    assert runs.clean.docs == everything
    assert runs.clean.refused == set()


@pytest.mark.parametrize("place", PLACES)
def test_what_is_planted_is_shown_and_nothing_else(runs: Runs, place: str) -> None:
    assert runs.planted.everywhere[place] == VIOLATED


def test_what_holds_is_green_in_every_place(runs: Runs) -> None:
    # Nothing of a refused epoch is committed: neither its commit can be judged, nor what it drops.
    unjudged = {place for place, rule in RULES.items() if place[0] in REFUSED and rule.stage == "commit"}
    judged = RULES.keys() - unjudged - {("seen_refused", "late_share")}
    for found in (runs.planted.dagster, runs.planted.page, runs.planted.docs):
        assert {place for place, state in found.items() if state == "passed"} == judged - VIOLATED.keys()


def test_each_is_as_severe_as_declared(runs: Runs) -> None:
    lost = "not evaluated"
    looks = {place: "not-evaluated" if how == lost else RULES[place].severity for place, how in VIOLATED.items()}
    assert {place: look for place, look in runs.planted.looks.items() if look != "passed"} == looks
    grave = {"critical": "ERROR", "not-evaluated": "ERROR", "warning": "WARN", "info": "WARN"}
    assert runs.planted.severities == {place: grave[look] for place, look in looks.items()}
    assert set(looks.values()) == set(grave)


def test_an_epoch_is_refused_where_a_blocking_one_is_broken(runs: Runs) -> None:
    assert {node for node, invariant in VIOLATED if RULES[node, invariant].blocking} == REFUSED
    assert runs.planted.refused == runs.alone.refused == {(node, 2) for node in REFUSED}


@pytest.mark.parametrize("place", PLACES)
def test_checks_alone_find_it_again_and_what_an_epoch_does_not_touch(runs: Runs, place: str) -> None:
    # A run's evaluations are of its own nodes; the others stand as they stood.
    expected = {where: how for where, how in EVERYWHERE.items() if where[0] in AGAIN or place != "Dagster"}
    assert runs.alone.everywhere[place] == expected


def test_the_query_that_is_shown_finds_the_rows_again(runs: Runs) -> None:
    """Those of a refused epoch too, whose rows are in no changelog."""
    lines = quality_lines(runs.home.project.quality, (pc.field("epoch") == 2) & (pc.field("state") == "violated"))
    assert {(line["node"], line["invariant"]) for line in lines} == {
        place for place, how in EVERYWHERE.items() if how == "violated"
    }
    counted = {
        (line["node"], line["invariant"], line["scope"]): len(asked(runs.home.project, line["sql"])) for line in lines
    }
    assert counted == {(line["node"], line["invariant"], line["scope"]): line["violations"] for line in lines}


def test_what_verify_finds_is_on_the_page_beside_the_fold(runs: Runs) -> None:
    """As the last of this file: the quality table has more rows from here on."""
    nodes = ("both", "shelf", "orders", "clicks")
    selected = (part for node in nodes for part in ("--select", node))
    done = CliRunner().invoke(main, ["verify", PIPELINE.name, *selected], obj=runs.home.project)
    assert done.exit_code == 1, done.output
    assert "both                     epoch 2: 6 rows computed again, 1 differing" in done.output
    path, _ = write_report(runs.home.project, [PIPELINE])
    with offline_page() as chromium:
        chromium.open(path)
        cells = chromium.run(
            """return [...document.querySelectorAll("tbody.replay button")].map((b) => [b.id, b.textContent])"""
        )
    # Of shelf t2 is another row, and t3 is gone; its file is not read again. A stream that is read has no table.
    shown = {id.removeprefix("planted."): text for id, text in cells if id.endswith(".2")}
    assert {id: text for id, text in shown.items() if id.partition(".")[0] in nodes} == {
        "both.verify.2": "✕1",
        "both.fold_equals_table.2": "✓",
        "shelf.fold_equals_table.2": "✕2",
        "orders.fold_equals_table.2": "✓",
    }
