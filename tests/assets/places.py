"""What a user sees of a pipeline's checks, read where it is shown: in Dagster, on the report's page, in Data Docs."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from rivermeet.assets.defs.keys import keys_of
from rivermeet.assets.quality.judge import select_rules
from rivermeet.assets.reports.quality_report import write_report
from rivermeet.expectations.invariants import invariants_of
from rivermeet.pipelines import Pipeline
from tests.assets.home import Home
from tests.offline_page import Page

Place = tuple[str, str]
"""Node and invariant."""
_JUDGED = """return [...document.querySelectorAll(".suite")].flatMap((suite) =>
  [...suite.querySelectorAll(".source")].map((source) => [suite.querySelector(".scroll").id, suite.open,
    source.previousElementSibling.textContent, source.closest("tr").querySelector("td i").className]))"""
_INDEX = "return [...document.querySelectorAll('li a')].map((a) => a.getAttribute('href'))"
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
    path, _ = write_report(home.project, [home.pipeline])
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
    folds = {(node.name, rule.id) for node in pipeline.stored for rule in select_rules(node, "fold")}
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
    """From the index to each run's page; of each check what the newest run says of its newest epoch."""
    index = home.project.settings.reports / "gx/docs/index.html"
    chromium.open(index)
    newest: dict[Place, tuple[int, str]] = {}
    # The newest is the first line, and is to win.
    for link in reversed(chromium.run(_INDEX)):
        chromium.open(index.parent / link)
        found: dict[Place, tuple[int, str, bool]] = {}
        for suite, is_open, sentence, look in chromium.run(_JUDGED):
            _, node, epoch = suite.split(".")
            ids = {rule.sentence: rule.id for rule in invariants_of(home.pipeline.node(node))}
            assert (node, ids[sentence]) not in found, "a sentence stands for two invariants"
            found[node, ids[sentence]] = int(epoch), look.replace("-", " "), is_open
        assert chromium.errors() == []
        bad = {(node, epoch) for (node, _), (epoch, state, _) in found.items() if state != "passed"}
        assert {(node, epoch) for (node, _), (epoch, _, is_open) in found.items() if is_open} == bad
        newest |= {
            place: (epoch, state)
            for place, (epoch, state, _) in found.items()
            if epoch >= newest.get(place, (0, ""))[0]
        }
    last: dict[tuple[str, bool], int] = {}
    folds = {(node.name, rule.id) for node in home.pipeline.stored for rule in select_rules(node, "fold")}
    for place, (epoch, _) in newest.items():
        moment = place[0], place in folds
        last[moment] = max(last.get(moment, 0), epoch)
    return {place: state for place, (epoch, state) in newest.items() if epoch == last[place[0], place in folds]}
