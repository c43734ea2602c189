"""What is planted in real files is in Dagster's checks: as severe as declared, with its rows, its query and its page.

One run judges a rule of each severity, one that holds and one whose query fails; a second run is refused by a blocking
rule. The rules are the tests' own, the rest is what runs everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rivermeet.assets.defs.automation import WHOLE
from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.defs.metadata import report_url
from rivermeet.assets.defs.node_assets import node_assets
from rivermeet.expectations import invariants
from rivermeet.expectations.invariant import Invariant, Severity
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Pipeline
from rivermeet.pipelines.plural import pluralize
from tests.assets.home import Home, asked, homed
from tests.browser import browser, local, needs_chromium, page
from tests.builders import csv_file

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FILES = Files("orders/*.csv", "csv", {"id": "STRING", "amount": "INT", "at": "BIGINT"})
PIPELINE = Pipeline("planted")
orders = PIPELINE.stream("orders", FILES, key=["id"], timestamp="at", partitions=1)
kept = orders.filter("amount > 0", "kept")
more = PIPELINE.stream("more", replace(FILES, pattern="more/*.csv"), key=["id"], timestamp="at", partitions=1)
merged = kept.merge(more, "merged")
KEY = changelog_key(orders)


def _rule(name: str, where: str, severity: Severity, blocking: bool = False) -> Invariant:
    return replace(
        invariants.ALL[0],
        id=name,
        sentence=f"The sentence of {name}.",
        families=("source",),
        needs_table=False,
        severity=severity,
        blocking=blocking,
        stage="epoch" if blocking else "table",
        violations=lambda node: f"SELECT * FROM {{{'rows' if blocking else 'changelog'}}} WHERE {where}",
        tolerated=0.0,
    )


RULES = (
    _rule("planted_critical", "value.amount = 13", "critical"),
    _rule("planted_warning", "value.amount >= 13", "warning"),
    _rule("planted_info", "value.amount = 14", "info"),
    _rule("planted_clean", "value.amount = 99", "warning"),
    _rule("planted_lost", "no_such_column", "info"),
    _rule("planted_blocking", "value.amount < 0", "critical", blocking=True),
)


def deliver(home: Home, name: str, *rows: tuple[str, int, int], to: str = "orders") -> None:
    csv_file(home.data / to / f"{name}.csv", "id,amount,at", *(",".join(map(str, row)) for row in rows))


def checks(home: Home) -> dict[str, dg.AssetCheckEvaluation]:
    """The newest result of each rule's check."""
    keys = [dg.AssetCheckKey(KEY, rule.id) for rule in RULES]
    found = home.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    events = {key.name: record.event for key, record in found.items() if record.event}
    return {
        name: event.dagster_event.event_specific_data
        for name, event in events.items()
        if event.dagster_event and isinstance(event.dagster_event.event_specific_data, dg.AssetCheckEvaluation)
    }


def _shown(check: dg.AssetCheckEvaluation) -> dict[str, Any]:
    return {name: entry.value for name, entry in check.metadata.items()}


def _query(shown: dict[str, Any]) -> str:
    sql = re.fullmatch(r"```sql\n(.*)\n```", shown["sql"], re.DOTALL)
    assert sql is not None
    return sql[1]


def _sample(check: dg.AssetCheckEvaluation) -> Sequence[Any]:
    sample = check.metadata.get("sample")
    return [record.data for record in sample.records] if isinstance(sample, dg.TableMetadataValue) else []


@pytest.fixture(scope="module")
def planted(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Three orders after one run; 13 and 14 break rules."""
    with (
        pytest.MonkeyPatch.context() as patched,
        homed(PIPELINE, tmp_path_factory.mktemp("planted"), settings) as home,
    ):
        patched.setattr(invariants, "ALL", (*invariants.ALL, *RULES))
        deliver(home, "one", ("a", 12, 1000), ("b", 13, 2000), ("c", 14, 3000))
        assert not home.run(), "a critical rule is broken"
        yield home


def test_each_is_as_severe_as_declared(planted: Home) -> None:
    error, warn = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
    found = {name: (check.passed, check.severity) for name, check in checks(planted).items() if not check.passed}
    # What could not be evaluated is an error, however mild its rule.
    assert found == {
        "planted_critical": (False, error),
        "planted_warning": (False, warn),
        "planted_info": (False, warn),
        "planted_lost": (False, error),
    }
    assert checks(planted)["planted_clean"].passed and checks(planted)["planted_blocking"].passed


def test_a_violation_has_its_rows_its_query_and_its_numbers(planted: Home) -> None:
    expected = {"planted_critical": ["b"], "planted_warning": ["b", "c"], "planted_info": ["c"]}
    for name, ids in expected.items():
        check = checks(planted)[name]
        shown = _shown(check)
        assert sorted(json.loads(row["key"])["id"] for row in _sample(check)) == ids
        assert (shown["violations"], shown["checked"], shown["epoch"], shown["state"]) == (len(ids), 3, 1, "violated")
        assert check.description == f"The sentence of {name}. {pluralize(len(ids), 'violation')} in 3 rows."
        assert sorted(row["key"]["id"] for row in asked(planted.project, _query(shown))) == ids
        assert '"changelog" AT (VERSION => 0)' in _query(shown), "so that it finds them after a rebuild, too"


def test_numbers_are_numbers_so_that_they_are_plotted(planted: Home) -> None:
    for name, check in checks(planted).items():
        for number in ("epoch", "seconds") if name == "planted_lost" else ("epoch", "seconds", "checked", "violations"):
            assert isinstance(check.metadata[number], dg.IntMetadataValue | dg.FloatMetadataValue), (name, number)


def test_what_could_not_be_evaluated_says_why(planted: Home) -> None:
    check = checks(planted)["planted_lost"]
    shown = _shown(check)
    assert shown["state"] == "not evaluated" and "no_such_column" in shown["error"]
    assert check.description is not None and "Could not be evaluated" in check.description
    assert "violations" not in shown and _sample(check) == []


def test_results_are_of_the_run_that_materialised_it(planted: Home) -> None:
    event = planted.instance.get_latest_materialization_event(KEY)
    assert event is not None
    run = planted.instance.get_run_by_id(event.run_id)
    assert run is not None and run.tags[WHOLE] == PIPELINE.name
    events = planted.instance.all_logs(event.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    of_run = {
        event.dagster_event.event_specific_data.check_name
        for event in events
        if event.dagster_event and isinstance(event.dagster_event.event_specific_data, dg.AssetCheckEvaluation)
    }
    assert of_run >= {rule.id for rule in RULES}
    check = checks(planted)["planted_warning"]
    assert check.target_materialization_data is not None
    assert check.target_materialization_data.run_id == event.run_id


def test_blocking_is_as_declared(planted: Home) -> None:
    declared = {spec.name: spec.blocking for spec in node_assets(orders).check_specs}
    assert {name: declared[name] for name in checks(planted)} == {rule.id: rule.blocking for rule in RULES}
    # One that is not blocking keeps nothing from what stands below, critical or not.
    assert planted.instance.get_latest_materialization_event(changelog_key(kept)) is not None


@needs_chromium
def test_the_check_leads_to_the_page_with_all_of_it(planted: Home) -> None:
    settings = planted.project.settings
    shown = _shown(checks(planted)["planted_critical"])
    path = Path(shown["data_docs_path"])
    assert shown["data_docs"] == report_url(settings, path) + "#planted.orders.1"
    with browser() as chromium:
        asked, said = chromium.open(page(path))
        text = chromium.text()
        assert local(asked) and said == []
        assert all(rule.sentence in text for rule in RULES)
        icons = "return document.querySelectorAll(`[id='planted.orders.1'] i.${arguments[0]}`).length"
        assert (chromium.run(icons, "violated"), chromium.run(icons, "not-evaluated")) == (3, 1)
        assert chromium.run("return document.getElementById('planted.kept.1') !== null"), "one page for all nodes"
        chromium.open(page(settings.reports / "gx/docs/index.html"))
        assert re.search(r": 5 of \d+ do not hold, in planted.more, planted.orders$", chromium.text(), re.MULTILINE)


@pytest.mark.prove
def test_checks_alone_say_the_same(planted: Home) -> None:
    before = {name: (check.passed, check.severity) for name, check in checks(planted).items()}
    done = planted.checks_alone(dg.AssetSelection.checks_for_assets(KEY))
    assert done.get_asset_materialization_events() == []
    after = {c.check_name: (c.passed, c.severity) for c in done.get_asset_check_evaluations()}
    assert {name: after[name] for name in before} == before
    assert "planted_critical" in checks(planted)


def test_a_run_that_finds_nothing_new_says_it_again(planted: Home) -> None:
    before = {name: (check.passed, check.severity) for name, check in checks(planted).items()}
    # One of the rules could not be evaluated: the first run after judges all of the epoch once more.
    for _ in range(2):
        assert not planted.run(), "a critical rule is broken, now as before"
        assert {name: (check.passed, check.severity) for name, check in checks(planted).items()} == before
    check = checks(planted)["planted_critical"]
    assert check.description == "As judged with epoch 1; nothing is new since."
    event = planted.instance.get_latest_materialization_event(KEY)
    assert event is not None and event.asset_materialization is not None
    assert "nothing_new" not in event.asset_materialization.metadata
    assert check.target_materialization_data is not None
    assert check.target_materialization_data.run_id == event.run_id
    assert any(line.startswith("  VIOLATED planted/orders_changelog") for line in planted.said), planted.said


@pytest.mark.prove
def test_an_epoch_that_is_confirmed_is_as_severe_as_before(planted: Home) -> None:
    before = {name: (check.passed, check.severity) for name, check in checks(planted).items()}
    deliver(planted, "one", ("x", 1, 1500), to="more")
    planted.run()
    assert any("orders" in line and line.endswith("nothing new") for line in planted.said)
    after = checks(planted)
    assert {name: (check.passed, check.severity) for name, check in after.items()} == before
    assert "nothing is new since" in (after["planted_warning"].description or "")
    event = planted.instance.get_latest_materialization_event(changelog_key(merged))
    assert event is not None


@pytest.mark.prove
def test_a_refused_epoch_is_red_where_it_was_green(planted: Home) -> None:
    """As the last of this file: the node is held from here on."""
    deliver(planted, "two", ("d", -1, 4000), ("e", 5, 5000))
    assert not planted.run()
    check = checks(planted)["planted_blocking"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    shown = _shown(check)
    assert (shown["epoch"], shown["violations"], shown["checked"]) == (2, 1, 2)
    assert [json.loads(row["key"])["id"] for row in _sample(check)] == ["d"]
    # Its rows are in no changelog.
    assert [row["key"]["id"] for row in asked(planted.project, _query(shown))] == ["d"]
    assert "The sentence of planted_blocking." in Path(shown["data_docs_path"]).read_text()
    # Checks that are run alone judge what is committed, and what was found still stands.
    planted.checks_alone(dg.AssetSelection.checks_for_assets(KEY))
    again = checks(planted)["planted_blocking"]
    assert (again.passed, again.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert again.description == (
        "The sentence of planted_blocking. 1 violation in 2 rows. "
        "That is epoch 2, which is held; what is committed holds."
    )
    assert [json.loads(row["key"])["id"] for row in _sample(again)] == ["d"]
    assert checks(planted)["planted_clean"].passed
    # The step has failed by name, and nothing was committed or read below.
    assert any("FAILED planted__orders" in line and "epoch 2 was not committed" in line for line in planted.said)
    for node in (orders, kept):
        event = planted.instance.get_latest_materialization_event(changelog_key(node))
        assert event is not None and event.asset_materialization is not None
        assert event.asset_materialization.metadata["epoch"].value == 1
