"""The quality report: written to its file as a whole, by a command or as an asset (``assets/defs/report_asset.py``).

What it is made from is in ``assets/reports/rows.py``, what it looks like in ``expectations/report/page.py``.
Held by ``tests/assets/reports/test_report.py``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rivermeet.assets.project import Project
from rivermeet.assets.reports.rows import histories
from rivermeet.pipelines import Pipeline, limits

if TYPE_CHECKING:
    from rivermeet.expectations.report.page import PipelineHistory


def report_path(project: Project) -> Path:
    """Where the report lies."""
    return project.settings.reports / "quality.html"


def write_report(
    project: Project, pipelines: Sequence[Pipeline], path: Path | None = None, shown: int = limits.SHOWN_EPOCHS
) -> tuple[Path, Sequence[PipelineHistory]]:
    """Write the page, and say where and what it shows.

    Parameters
    ----------
    path
        File to write; default: `report_path`.
    shown
        Newest epochs of each node.
    """
    from rivermeet.expectations.report.page import page

    path = path or report_path(project)
    found = histories(project, pipelines, shown)
    _replace(path, page(found, datetime.now(UTC)))
    return path, found


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole: a reader who has it open sees the old page or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".html", delete=False) as written:
        written.write(text.encode())
    os.chmod(written.name, 0o644)
    os.replace(written.name, path)
