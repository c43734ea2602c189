"""The quality report: written to its file as a whole, by a command or as an asset.

What it is made from is in ``assets/reports/rows.py``, what it looks like in ``expectations/report/page.py``.
Held by ``tests/assets/reports/test_report.py``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from rivermeet.assets.defs.keys import keys_of
from rivermeet.assets.defs.resource import PlatformResource
from rivermeet.assets.reports.rows import SHOWN_EPOCHS, histories
from rivermeet.pipelines import Pipeline

if TYPE_CHECKING:
    from rivermeet.assets.epoch.platform import Platform
    from rivermeet.expectations.report.page import PipelineHistory

REPORT_KEY = dg.AssetKey(["quality", "report"])


def report_path(platform: Platform) -> Path:
    """Where the report lies."""
    return platform.settings.reports / "quality.html"


def write_report(
    platform: Platform, pipelines: Sequence[Pipeline], path: Path | None = None, shown: int = SHOWN_EPOCHS
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

    path = path or report_path(platform)
    found = histories(platform, pipelines, shown)
    _replace(path, page(found, datetime.now(UTC)))
    return path, found


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole: whoever has it open sees the old page or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".html", delete=False) as written:
        written.write(text.encode())
    os.chmod(written.name, 0o644)
    os.replace(written.name, path)


def report_asset(pipelines: Sequence[Pipeline]) -> dg.AssetsDefinition:
    """The report of pipelines as an asset, after all that it reports on."""
    deps = [key for pipeline in pipelines for node in pipeline.stored for key in keys_of(node)]

    @dg.asset(
        key=REPORT_KEY,
        deps=deps,
        group_name="quality",
        kinds={"html"},
        description="One page, readable without a network: every invariant of every epoch, violations over rows "
        "checked, flow, latency, lag, and the SQL that finds bad rows again.",
    )
    def report(rivermeet: PlatformResource) -> dg.MaterializeResult[Any]:
        path, found = write_report(rivermeet.platform, pipelines)
        return dg.MaterializeResult(metadata=_metadata(path, found))

    return report


def _metadata(path: Path, found: Sequence[PipelineHistory]) -> Mapping[str, Any]:
    standing = [cell for pipeline in found for cell in pipeline.standing]
    states = [cell.state for cell in standing]
    return {
        "path": dg.MetadataValue.path(str(path)),
        "url": dg.MetadataValue.url(path.as_uri()),
        "invariants": len(states),
        "holding": states.count("passed"),
        "violated": states.count("violated"),
        "not_evaluated": len(states) - states.count("passed") - states.count("violated"),
        "epochs_shown": sum(len(one.epochs) for pipeline in found for one in pipeline.nodes),
        "bytes": path.stat().st_size,
    }
