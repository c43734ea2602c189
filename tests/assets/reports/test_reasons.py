"""What is behind bad rows of the report, over a home that was written by hand, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from rivermeet.assets.reports.quality_report import histories, write_report
from rivermeet.assets.reports.reasons import Reasons
from rivermeet.expectations.report.page import NodeHistory
from rivermeet.expectations.results import SCHEMA
from rivermeet.infra.delta.lines import append_lines
from tests.assets.why.small import Small, small
from tests.browser import needs_chromium
from tests.expectations.recorded import found, judged, line
from tests.offline_page import offline_page

BAD = "foreign_key_hash"
NOW = [{"problem": "differs", "key": '{"id": 11}'}, {"problem": "of an input", "key": '{"tail": "N3"}'}]
THEN = [{"problem": "differs", "key": '{"id": 10}'}, {"problem": "has no key"}]
COMMAND = "rivermeet why small fleet '{\"id\": 11}'"


@pytest.fixture
def home(tmp_path: Path) -> Small:
    """Two epochs of the fleet, each with a violation."""
    home = small(tmp_path)
    # Verdicts of runs are not what the walk reads: they lie beside the changelogs that were written by hand.
    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in SCHEMA.items()])
    rows = judged(home.fleet, {1: found(home.fleet, BAD, 2, THEN), 2: found(home.fleet, BAD, 2, NOW)})
    for epoch in (1, 2):
        append_lines([r for r in rows if r["epoch"] == epoch], schema, home.project.quality.table, "r", epoch)
        log = home.project.context(home.pipeline).log
        log.write(home.fleet.name, 1, epoch, "measured", json.dumps(line(epoch)))
    return home


def fleet(home: Small) -> NodeHistory:
    ((shown,),) = ([n for n in one.nodes if n.node is home.fleet] for one in histories(home.project, [home.pipeline]))
    return shown


def test_what_is_violated_now_is_walked_back_and_what_was_has_its_command(home: Small) -> None:
    behind = fleet(home).reasons
    assert list(behind) == ['{"id": 11}', '{"id": 10}'], "and no key of an input"
    assert behind['{"id": 11}'].command == COMMAND
    printed = behind['{"id": 11}'].tree.splitlines()
    assert printed[0] == "small.fleet (table)  id=11: 1 row"
    assert any("triggered by right 'planes' tail=N3" in one for one in printed)
    assert any(one.endswith("planes/2.csv, line 3") for one in printed)
    assert behind['{"id": 10}'] == ("rivermeet why small fleet '{\"id\": 10}'", "")


def test_a_page_walks_back_a_few_keys_alone(home: Small) -> None:
    behind = Reasons(home.project, left=0).behind(fleet(home)).reasons
    assert behind['{"id": 11}'] == (COMMAND, "")


def test_what_cannot_be_walked_back_says_so(home: Small) -> None:
    for file in Path(home.project.context(home.pipeline).paths(home.planes).changelog).glob("*.parquet"):
        file.unlink()
    assert fleet(home).reasons['{"id": 11}'].tree.startswith("not explained: ")


@needs_chromium
def test_the_drawer_shows_it(home: Small, tmp_path: Path) -> None:
    path, _ = write_report(home.project, [home.pipeline], tmp_path / "page.html")
    with offline_page() as page:
        page.open(path)
        page.run("document.getElementById(arguments[0]).click()", f"small.fleet.{BAD}.2")
        assert page.run("return document.querySelector('#drawer-why summary').innerText") == COMMAND
        page.run("document.querySelector('#drawer-why details').open = true")
        assert "planes/2.csv, line 3" in page.run("return document.querySelector('#drawer-why pre').innerText")
        page.run("document.getElementById('drawer').close()")
        page.run("document.getElementById(arguments[0]).click()", f"small.fleet.{BAD}.1")
        assert page.run("return document.querySelector('#drawer-why').innerText.includes('\"id\": 10')")
        assert page.run("return document.querySelector('#drawer-why details')") is None
        page.run("document.getElementById('drawer').close()")
        page.run("document.getElementById(arguments[0]).click()", "small.fleet.record_shape.2")
        assert page.run("return document.getElementById('drawer-why').hidden")
        assert page.errors() == []
