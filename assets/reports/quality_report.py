"""The quality report, written by a command or as an asset (``assets/defs/report_asset.py``); and Data Docs of a run.

It is made from rows of the ``quality`` table and lines of the epoch log, read without Spark; what it looks like is in
``expectations/report/page.py``. Of each node its newest epochs are taken, those that were judged and those that were
measured alike: one that was committed and not judged has to be seen. Held by ``tests/assets/reports/test_report.py``.

Data Docs are made at a run's end, from what the quality table has of it. A run whose steps have a process each writes
them at the end of every step, each time with all that is there by then. Held by
``tests/assets/quality/test_check_results.py``; two at once by ``tests/assets/reports/test_data_docs.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from rivermeet.assets.project import Project
from rivermeet.assets.shadow.words import last_recorded
from rivermeet.expectations.gx.data_docs import Suite
from rivermeet.expectations.report.page import NodeHistory, PipelineHistory, page
from rivermeet.expectations.report.templates import write_whole
from rivermeet.expectations.results import SCHEMA
from rivermeet.pipelines import Node, Pipeline, limits

IDENTITY = ("node", "epoch", "invariant", "run", "judged_at")
LONG = {"sql": "", "sample": "[]"}
"""Columns of the quality table that are long, and what stands for them where they are not read."""
Lines = Sequence[Mapping[str, Any]]


def report_path(project: Project) -> Path:
    """Where the report lies."""
    return project.settings.reports / "quality.html"


def write_report(
    project: Project, pipelines: Sequence[Pipeline], path: Path | None = None, shown: int = limits.SHOWN_EPOCHS
) -> tuple[Path, Sequence[PipelineHistory]]:
    """Write the page of each node's newest ``shown`` epochs, by default to `report_path`; where, and what it shows."""
    path = path or report_path(project)
    found = histories(project, pipelines, shown)
    write_whole(path, page(found, datetime.now(UTC)))
    return path, found


def histories(
    project: Project, pipelines: Sequence[Pipeline], shown: int = limits.SHOWN_EPOCHS
) -> list[PipelineHistory]:
    """What is recorded of the pipelines' nodes."""
    from rivermeet.assets.reports.reasons import Reasons

    judged, reasons = _find_judged(project, pipelines), Reasons(project)
    found: list[PipelineHistory] = []
    for pipeline in pipelines:
        log = project.context(pipeline).log
        measured = {node.name: log.measurements(node.name) for node in pipeline.stored}
        epochs = {
            name: sorted(judged.get((pipeline.name, name), set()) | {line["epoch"] for line in lines})
            for name, lines in measured.items()
        }
        newest = {name: all_of_it[-shown:] for name, all_of_it in epochs.items()}
        rows = _load_verdicts(project, pipeline, newest)
        nodes = [
            reasons.behind(
                _history(project, node, newest[node.name], len(epochs[node.name]), rows.get(node.name, []), measured)
            )
            for node in pipeline.stored
        ]
        audits = [last_recorded(project, shadow) for shadow in pipeline.shadows]
        shadows = [audit for audit in audits if audit is not None]
        found.append(PipelineHistory(pipeline.name, nodes, pipeline.description, shadows))
    return found


def _history(
    project: Project, node: Node, epochs: Sequence[int], recorded: int, judged: Lines, measured: Mapping[str, Lines]
) -> NodeHistory:
    from rivermeet.infra.delta.io import last_note

    made = node.operation
    note = last_note(project.paths(node).changelog)
    about = " ".join(filter(None, (made.description if made else "", node.description)))
    return NodeHistory(
        node,
        about=about.replace("`", ""),
        committed=note[1].epoch if note else None,
        epochs=epochs,
        hidden=recorded - len(epochs),
        judged=judged,
        measured=[line for line in measured[node.name] if line["epoch"] in set(epochs)],
        inputs={side: measured[part.name] for side, part in made.stored_inputs.items()} if made else {},
        # Nobody is asked but the epoch log.
        read=project.source_step(node).report() if note and node.source else None,
    )


def _find_judged(project: Project, pipelines: Sequence[Pipeline]) -> Mapping[tuple[str, str], set[int]]:
    """(pipeline, node) to the epochs that were judged."""
    import pyarrow.compute as pc

    from rivermeet.assets.quality.quality_table import quality_lines

    wanted = pc.field("pipeline").isin([pipeline.name for pipeline in pipelines])
    found: dict[tuple[str, str], set[int]] = {}
    for line in quality_lines(project.quality, wanted, ["pipeline", "node", "epoch"]):
        found.setdefault((line["pipeline"], line["node"]), set()).add(line["epoch"])
    return found


def _load_verdicts(
    project: Project, pipeline: Pipeline, newest: Mapping[str, Sequence[int]]
) -> Mapping[str, list[Mapping[str, Any]]]:
    """Node to its rows of the quality table at the epochs that are shown.

    What held long ago is read without its query: of five hundred epochs of fifty nodes those are half a gigabyte.
    """
    import pyarrow.compute as pc

    from rivermeet.assets.quality.quality_table import quality_lines

    oldest = min((epochs[0] for epochs in newest.values() if epochs), default=0)
    wanted = (pc.field("pipeline") == pipeline.name) & (pc.field("epoch") >= oldest)
    detailed = min((epochs[-limits.MOST_DETAILED_EPOCHS :][0] for epochs in newest.values() if epochs), default=0)
    has_details = wanted & ((pc.field("state") != "passed") | (pc.field("epoch") >= detailed))
    shown = {name: set(epochs) for name, epochs in newest.items()}
    details = {
        tuple(row[name] for name in IDENTITY): {name: row[name] for name in LONG}
        for row in quality_lines(project.quality, has_details, [*IDENTITY, *LONG], oldest)
    }
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in quality_lines(project.quality, wanted, [name for name in SCHEMA if name not in LONG], oldest):
        if row["epoch"] in shown.get(row["node"], ()):
            long = details.get(tuple(row[name] for name in IDENTITY), LONG)
            found.setdefault(row["node"], []).append({**row, **long})
    return found


GX = "gx"
"""Folder of Great Expectations among the reports."""


def write_data_docs(project: Project, pipelines: Iterable[Pipeline], run: str, since: int) -> Path | None:
    """Write the page of a run that began at ``since`` (ms) and may have judged these pipelines; None if it did not."""
    import pyarrow.compute as pc

    from rivermeet.assets.quality.quality_table import quality_lines

    nodes = {(pipeline.name, node.name): node for pipeline in pipelines for node in pipeline.stored}
    found: dict[tuple[str, str, int], dict[str, Mapping[str, Any]]] = {}
    lines = quality_lines(project.quality, pc.field("run") == run, oldest=since, by="judged_at")
    for line in sorted(lines, key=lambda line: line["judged_at"]):
        if (line["pipeline"], line["node"]) in nodes:
            of = (line["pipeline"], line["node"], line["epoch"])
            found.setdefault(of, {})[line["invariant"]] = line
    suites = [
        Suite.of(nodes[pipeline, node], epoch, [*rows.values()]) for (pipeline, node, epoch), rows in found.items()
    ]
    if not suites:
        return None
    # One writer at a time, of all processes of the home: the index is made of the pages that are there.
    with FileLock(project.settings.home / "locks" / "data_docs.lock"):
        return project.pages.write(project.settings.reports / GX, run, suites)
