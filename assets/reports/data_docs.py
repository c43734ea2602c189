"""Data Docs of a run: made at its end, from what the quality table has of it.

A run whose steps have a process each writes them at the end of every step, each time with all that is there by then.
Held by ``tests/assets/quality/test_check_results.py``; two at once by ``tests/assets/reports/test_data_docs.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from rivermeet.assets.project import Project
from rivermeet.expectations.gx.data_docs import Suite, write_page
from rivermeet.pipelines import Pipeline

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
    suites = [Suite(nodes[pipeline, node], epoch, [*rows.values()]) for (pipeline, node, epoch), rows in found.items()]
    if not suites:
        return None
    # One writer at a time, of all processes of the home: the index is made of the pages that are there.
    with FileLock(project.settings.home / "locks" / "data_docs.lock"):
        return write_page(project.settings.reports / GX, run, suites)
