"""The quality report as an asset, after all that it reports on. Held by ``tests/assets/reports/test_report.py``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from rivermeet.assets.defs.keys import keys_of
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.reports.quality_report import write_report
from rivermeet.expectations.report.page import PipelineHistory
from rivermeet.pipelines import Pipeline

REPORT_KEY = dg.AssetKey(["quality", "report"])


def report_asset(pipelines: Sequence[Pipeline]) -> dg.AssetsDefinition:
    """The report of pipelines."""
    deps = [key for pipeline in pipelines for node in pipeline.stored for key in keys_of(node)]

    @dg.asset(
        key=REPORT_KEY,
        deps=deps,
        group_name="quality",
        kinds={"html"},
        description="One page, readable without a network: every invariant of every epoch, violations over rows "
        "checked, flow, latency, lag, and the SQL that finds bad rows again.",
    )
    def report(rivermeet: ProjectResource) -> dg.MaterializeResult[Any]:
        path, found = write_report(rivermeet.project, pipelines)
        return dg.MaterializeResult(metadata=_metadata(path, found))

    return report


def _metadata(path: Path, found: "Sequence[PipelineHistory]") -> Mapping[str, Any]:
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
