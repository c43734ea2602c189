"""``rivermeet report`` and its asset, over real tables, without Spark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import CommitProperties, write_deltalake

from rivermeet.assets.cli.main import main, report
from rivermeet.assets.defs.report_asset import REPORT_KEY, report_asset
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.project import Project, demo_project
from rivermeet.assets.reports.quality_report import histories, report_path
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.results import SCHEMA
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.lines import append_lines
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Node, Pipeline, limits
from tests.assets.home import project_in
from tests.browser import needs_chromium
from tests.expectations.recorded import found, judged, line, of_source
from tests.offline_page import offline_page

JOIN, SOURCE, UNJUDGED = "priced_purchases", "products", "purchases"
BAD = "rows_come_from_facts"


class WithoutEngine(Sessions):
    """Of a project that nobody may ask for Spark."""

    def open(self) -> Any:
        raise AssertionError("the report needs no Spark")


def without_engine(home: Path) -> Project:
    made = project_in(home, Settings.from_env({}), *demo_project().pipelines)
    return replace(made, sessions=WithoutEngine(made.settings))


def invoice() -> Pipeline:
    return demo_project().pipeline("invoice")


def record(project: Project, node: Node, rows: Sequence[dict[str, Any]], lines: Sequence[dict[str, Any]]) -> None:
    """What runs of a node leave behind."""
    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in SCHEMA.items()])
    for epoch in sorted({row["epoch"] for row in rows}):
        mine = [row for row in rows if row["epoch"] == epoch]
        append_lines(mine, schema, project.quality.table, f"{node.name}/{mine[0]['run']}", epoch)
    for one in lines:
        project.context(node.pipeline).log.write(node.name, 1, one["epoch"], "measured", json.dumps(one))
    note = CommitNote(incarnation=1, epoch=lines[-1]["epoch"], ends={0: 1})
    written = CommitProperties(custom_metadata={"userMetadata": note.model_dump_json()})
    path = project.paths(node).changelog
    write_deltalake(path, pa.table({"offset": [0, 1]}), mode="append", commit_properties=written)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Twelve epochs of a join and its inputs; one violation, one epoch judged twice, one input not judged at all."""
    project = without_engine(tmp_path)
    join, source = invoice().node(JOIN), invoice().node(SOURCE)
    epochs = range(1, 13)
    wrong = {12: found(join, BAD, 3, [{"key": "<b>"}], "SELECT 'bad'")}
    again = judged(join, {11: {}}, run="r2")
    first = judged(join, {e: wrong.get(e, {}) for e in epochs} | {11: found(join, BAD, 1)})
    record(project, join, first, [line(e, one_sided=None) for e in epochs])
    record(project, join, [row | {"judged_at": row["judged_at"] + 1} for row in again], [line(12)])
    record(project, source, judged(source, {e: {} for e in epochs}), [of_source(e) for e in epochs])
    record(project, invoice().node(UNJUDGED), [], [of_source(e) for e in epochs])
    return project


def command(project: Project, *arguments: str) -> str:
    result = CliRunner().invoke(main, ["report", *arguments], obj=project)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_newest_epochs_of_each_node_are_shown(project: Project) -> None:
    (shop,) = histories(project, [invoice()], shown=10)
    nodes = {one.node.name: one for one in shop.nodes}
    assert list(nodes) == [node.name for node in invoice().stored]
    join, source = nodes[JOIN], nodes[SOURCE]
    assert (list(join.epochs), join.hidden, join.committed) == (list(range(3, 13)), 2, 12)
    assert [one["epoch"] for one in source.measured] == list(range(3, 13))
    assert {row["epoch"] for row in join.judged} == set(range(3, 13))
    # With each epoch 1,200 records came in each input; the join read 1,000 of one and 900 of the other.
    assert [one.unread for one in join.latency] == [(200 + 300) * e for e in range(3, 13)]
    assert {row.newest.state for row in nodes[UNJUDGED].checks.rows} == {"not judged"}
    assert nodes["customers"].epochs == []
    cells = {cell.epoch: cell.look for row in join.checks.rows if row.invariant == BAD for cell in row.cells}
    assert cells == dict.fromkeys(range(3, 12), "passed") | {12: "critical"}
    not_judged = len(invariants_of(invoice().node(UNJUDGED)))
    assert (shop.holding, shop.worst) == (len(shop.standing) - 1 - not_judged, "critical")


def test_the_command_writes_the_page_and_says_where(project: Project, tmp_path: Path) -> None:
    assert command(project) == f"report: {report_path(project)}\n"
    everything = report_path(project).read_text()
    assert "<h2" in everything and 'id="flights"' in everything and 'id="invoice"' in everything
    other = tmp_path / "new" / "page.html"
    assert command(project, "invoice", "-o", str(other), "--epochs", "5") == f"report: {other}\n"
    assert 'id="flights"' not in other.read_text() and "7 older epochs not shown" in other.read_text()
    assert [path.name for path in other.parent.iterdir()] == ["page.html"]


def test_the_command_shows_as_many_epochs_as_the_asset() -> None:
    (epochs,) = (parameter for parameter in report.params if parameter.name == "epochs")
    assert epochs.default == limits.SHOWN_EPOCHS


def test_a_wrong_name_is_one_line_with_the_choices(project: Project) -> None:
    result = CliRunner().invoke(main, ["report", "invoic"], obj=project)
    assert (result.exit_code, result.output) == (1, "Error: no pipeline 'invoic'; there are flights, invoice\n")


def test_a_home_without_any_run_has_a_report(tmp_path: Path) -> None:
    path = re.fullmatch(r"report: (.*)\n", command(without_engine(tmp_path / "new"), "invoice"))
    assert path is not None
    page = Path(path[1]).read_text()
    assert page.count("nothing committed yet") == len(invoice().stored)
    assert (page.count("nothing judged yet"), page.count("worst: none")) == (1, 0), "and nothing is green"


def test_rows_of_an_older_version_are_shown(project: Project) -> None:
    """A table without the newest column is read, and gets the column with its next line."""
    old = {column: kind for column, kind in SCHEMA.items() if column != "judged_at"}
    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in old.items()])
    node = demo_project().pipeline("flights").node("planes")
    rows = [{column: row[column] for column in old} for row in judged(node, {1: {}})]
    older = without_engine(project.settings.home / "old")
    append_lines(rows, schema, older.quality.table, "old", 1)
    (flights,) = histories(older, [demo_project().pipeline("flights")])
    (planes,) = (one for one in flights.nodes if one.node.name == "planes")
    assert planes.checks.holding == len(invariants_of(node)) and flights.judged_at is None
    record(older, node, judged(node, {2: {}}), [of_source(2)])
    (flights,) = histories(older, [demo_project().pipeline("flights")])
    assert flights.judged_at is not None


def test_the_asset_says_where_the_page_is_and_what_it_counts(project: Project) -> None:
    made = report_asset([invoice()])
    result = dg.materialize([made], resources={"rivermeet": ProjectResource(project=project)})
    (event,) = result.asset_materializations_for_node("__".join(REPORT_KEY.path))
    metadata: dict[str, Any] = {name: entry.value for name, entry in event.metadata.items()}
    path = report_path(project)
    assert (metadata["path"], metadata["url"], metadata["bytes"]) == (str(path), path.as_uri(), path.stat().st_size)
    counts = {name: len(invariants_of(invoice().node(name))) for name in (JOIN, SOURCE, UNJUDGED)}
    assert (metadata["invariants"], metadata["holding"]) == (sum(counts.values()), counts[JOIN] + counts[SOURCE] - 1)
    assert (metadata["violated"], metadata["not_evaluated"]) == (1, counts[UNJUDGED])


def test_the_asset_stands_after_all_that_it_reports_on() -> None:
    (spec,) = report_asset([invoice()]).specs
    assert spec.key == REPORT_KEY and spec.group_name == "quality"
    assert {dep.asset_key.path[1] for dep in spec.deps} >= {f"{JOIN}_changelog", f"{SOURCE}_table"}


@needs_chromium
def test_the_page_shows_what_the_tables_hold(project: Project) -> None:
    from deltalake import DeltaTable

    command(project, "invoice")
    with offline_page() as page:
        page.open(report_path(project))
        shown = page.tables("checks")
        assert page.errors() == []
    stored = DeltaTable(project.quality.table).to_pyarrow_table().to_pylist()
    # Epoch 11 of the join was judged again, and that counts.
    counts = [row for row in stored if not (row["node"] == JOIN and row["epoch"] == 11 and row["run"] == "r1")]
    metadata = {
        (node, row["invariant"], int(row["epoch"]), row["state"], row["violations"], row["checked"], row["seconds"])
        for node, rows in shown.items()
        for row in rows
    }
    assert metadata == {
        (
            *(f"invoice.{row['node']}", row["invariant"], row["epoch"], row["state"]),
            *(f"{row['violations']:,}", f"{row['checked']:,}", f"{row['seconds']:.3f}"),
        )
        for row in counts
    }


def test_it_loads_no_great_expectations(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom rivermeet.assets.cli.main import main\n"
        f"try: main(['report', 'invoice', '-o', {str(tmp_path / 'page.html')!r}])\n"
        "except SystemExit: print('great_expectations' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"RIVERMEET_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"},
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"
