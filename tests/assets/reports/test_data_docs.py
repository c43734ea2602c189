"""A run's page has what this run judged, once, and two processes of one home lose nothing of each other's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rivermeet.assets.project import Project
from rivermeet.assets.quality.quality_table import remember
from rivermeet.assets.reports.quality_report import write_data_docs
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.results import InvariantResult
from rivermeet.infra.settings import PROJECT, Settings
from rivermeet.pipelines import Node
from tests.assets.home import project_in
from tests.expectations.nodes import orders, people

RUNS = ("run-a", "run-b", "run-c")
_WRITES = """
import sys
from pathlib import Path
from tests.assets.reports.test_data_docs import orders, project_of, write_data_docs
assert write_data_docs(project_of(Path(sys.argv[1])), [orders.pipeline], sys.argv[2], 0)
"""


def project_of(home: Path) -> Project:
    return project_in(home, Settings.from_env({}))


def judge(home: Path, run: str, node: Node, epoch: int, name: str = "epoch", bad: int = 0) -> None:
    results = [InvariantResult(rule, 5, bad, [], "SELECT 1", 0.1) for rule in invariants_of(node)]
    remember(project_of(home).quality, node, epoch, results, run, name)


def suites(page: Path) -> list[str]:
    return re.findall(r'<div id="([^"]*)" class="scroll">', page.read_text())


def test_a_page_has_what_its_run_judged(tmp_path: Path) -> None:
    judge(tmp_path, "run-a", orders, 1)
    judge(tmp_path, "run-b", orders, 2, bad=1)
    judge(tmp_path, "run-b", people, 7)
    # Judged once more in the same run: the newer verdicts count.
    judge(tmp_path, "run-b", orders, 2, "alone")
    page = write_data_docs(project_of(tmp_path), [orders.pipeline], "run-b", 0)
    assert page is not None and sorted(suites(page)) == ["shop.orders.2", "shop.people.7"]
    everything = len(invariants_of(orders)) + len(invariants_of(people))
    assert f"all {everything} hold</title>" in page.read_text()


def test_of_one_minute_the_last_run_is_the_first_line(tmp_path: Path) -> None:
    """By their whole titles "all hold" would be above "3 of 3 do not hold", whichever came last."""
    for run, bad in (("run-a", 0), ("run-b", 1), ("run-c", 0), ("run-d", 1)):
        judge(tmp_path, run, orders, 1, bad=bad)
        page = write_data_docs(project_of(tmp_path), [orders.pipeline], run, 0)
        assert page is not None
    index = (tmp_path / "reports" / "gx" / "docs" / "index.html").read_text()
    minutes = {title[:20] for title in re.findall(r"<a [^>]*>([^<]+)</a>", index)}
    assert len(minutes) > 1 or re.findall(r"runs/(run-\w)", index) == ["run-d", "run-c", "run-b", "run-a"]


def test_a_run_that_judged_nothing_has_no_page(tmp_path: Path) -> None:
    assert write_data_docs(project_of(tmp_path), [orders.pipeline], "run", 0) is None
    judge(tmp_path, "another", orders, 1)
    assert write_data_docs(project_of(tmp_path), [orders.pipeline], "run", 0) is None
    assert not (tmp_path / "reports").exists()


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_processes_that_write_at_once_lose_no_page(tmp_path: Path) -> None:
    for epoch, run in enumerate(RUNS, 1):
        judge(tmp_path, run, orders, epoch)
    program = [sys.executable, "-c", _WRITES, str(tmp_path)]
    writers = [subprocess.Popen([*program, run], cwd=PROJECT, stderr=subprocess.PIPE, text=True) for run in RUNS]
    assert [(writer.communicate()[1], writer.returncode)[1] for writer in writers] == [0] * len(RUNS)
    docs = tmp_path / "reports/gx/docs"
    assert [suites(docs / f"runs/{run}.html") for run in RUNS] == [[f"shop.orders.{n}"] for n in (1, 2, 3)]
    assert set(re.findall(r'href="runs/(.*?)\.html"', (docs / "index.html").read_text())) == set(RUNS)
