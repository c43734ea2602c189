"""What a user sees of a pipeline's checks, read where it is shown: in Dagster, on the report's page, in Data Docs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from assets.defs.keys import keys_of
from assets.quality.judge import judged_at
from assets.reports.quality_report import write_report
from expectations.invariants import invariants_of
from pipelines import Pipeline
from tests.assets.home import Home
from tests.offline_page import Page

Place = tuple[str, str]
"""Node and invariant."""
_ICONS = {"fa-check-circle": "passed", "fa-times": "violated", "fa-exclamation-triangle": "not evaluated"}
_JUDGED = """return [...document.querySelectorAll(".rivermeet-source")].map((source) =>
  [source.previousElementSibling.textContent, source.closest("tr").querySelector("td i").className])"""
_INDEX = """return $(".ge-index-page-validation-results-table").bootstrapTable("getData").map((row) =>
  [row._expectation_suite_name_sort, row.run_name, row._run_time_sort, row._validation_success_text,
   row._table_row_link_path])"""
_CELLS = """return [...document.querySelectorAll(".heat-map button")].map((b) =>
  [b.id, b.className.replace("cell ", "")])"""
_REFUSED = """return [...document.querySelectorAll("th.refused")].map((h) =>
  [h.closest(".node").id, Number(h.textContent)])"""


@dataclass(frozen=True)
class Shown:
    """How each check stands at the newest epoch of its node: passed, violated or not evaluated.

    ``looks`` has severities instead, where something is wrong; ``refused`` nodes with the epochs that the page strikes
    out.
    """

    dagster: dict[Place, str]
    page: dict[Place, str]
    docs: dict[Place, str]
    severities: dict[Place, str]
    looks: dict[Place, str]
    refused: set[tuple[str, int]]

    @property
    def everywhere(self) -> dict[str, dict[Place, str]]:
        """What does not hold, by where it is shown."""
        places = {"Dagster": self.dagster, "page": self.page, "Data Docs": self.docs}
        return {name: {k: state for k, state in found.items() if state != "passed"} for name, found in places.items()}


def shown(home: Home, run: str, chromium: Page) -> Shown:
    """What is shown after a run."""
    checks = _evaluations(home, run)
    path, _ = write_report(home.platform, [home.pipeline])
    chromium.open(path)
    looks = _newest(home.pipeline, {tuple(id.split(".")[1:]): look for id, look in chromium.run(_CELLS)})
    refused = {(id.split(".")[1], epoch) for id, epoch in chromium.run(_REFUSED)}
    assert chromium.errors() == []
    return Shown(
        dagster={place: "passed" if c.passed else str(c.metadata["state"].value) for place, c in checks.items()},
        page={place: _state(look) for place, look in looks.items()},
        docs=_docs(home, chromium),
        severities={place: c.severity.value for place, c in checks.items() if not c.passed},
        looks=looks,
        refused=refused,
    )


def _state(look: str) -> str:
    return {"passed": "passed", "not-evaluated": "not evaluated"}.get(look, "violated")


def _newest(pipeline: Pipeline, cells: dict[tuple[str, ...], str]) -> dict[Place, str]:
    """Those of each node's newest epoch, and of its table's newest fold; what was not judged then has no cell to press.

    The table of a refused epoch stands as the last fold left it.
    """
    folds = {(node.name, rule.id) for node in pipeline.stored for rule in judged_at(node, "fold")}
    last: dict[tuple[str, bool], int] = {}
    for node, rule, epoch in cells:
        moment = node, (node, rule) in folds
        last[moment] = max(last.get(moment, 0), int(epoch))
    return {
        (node, rule): look
        for (node, rule, epoch), look in cells.items()
        if int(epoch) == last[node, (node, rule) in folds]
    }


def _evaluations(home: Home, run: str) -> dict[Place, dg.AssetCheckEvaluation]:
    node_of = {key: node.name for node in home.pipeline.stored for key in keys_of(node)}
    events = home.instance.all_logs(run, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    found = [e.dagster_event.event_specific_data for e in events if e.dagster_event]
    checks = [one for one in found if isinstance(one, dg.AssetCheckEvaluation)]
    named = {(node_of[one.asset_key], one.check_name): one for one in checks}
    assert len(named) == len(checks), "a check was evaluated twice"
    return named


def _docs(home: Home, chromium: Page) -> dict[Place, str]:
    """From the index to each suite's newest validation of its newest epoch, and what the page says.

    Of a node's two suites the newer one counts.
    """
    index = home.platform.settings.reports / "gx/docs/index.html"
    chromium.open(index)
    newest: dict[str, tuple[int, float, str, str]] = {}
    for suite, name, time, outcome, link in chromium.run(_INDEX):
        epoch = int(name.rpartition("-")[2])
        newest[suite] = max(newest.get(suite, (0, 0.0, "", "")), (epoch, time, outcome, link))
    found: dict[Place, str] = {}
    for suite, (_, _, outcome, link) in sorted(newest.items(), key=lambda item: item[1]):
        node = suite.removeprefix(f"{home.pipeline.name}-").removesuffix("-table")
        page = _validation(home.pipeline, node, index.parent / link, chromium)
        assert (outcome == "Success") == (set(page.values()) == {"passed"}), (suite, outcome)
        found |= page
    return found


def _validation(pipeline: Pipeline, node: str, path: Path, chromium: Page) -> dict[Place, str]:
    ids = {rule.sentence: rule.id for rule in invariants_of(pipeline.node(node))}
    chromium.open(path)
    rows = chromium.run(_JUDGED)
    assert chromium.errors() == []
    states = {(node, ids[sentence]): next(s for icon, s in _ICONS.items() if icon in look) for sentence, look in rows}
    assert len(states) == len(rows), "a sentence stands for two invariants"
    return states
