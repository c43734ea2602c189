"""Where a browser finds the pages of ``RIVERMEET_HOME/reports``.

Dagster's pages come by http, and a browser follows no link from such a page to a file: `rivermeet ui` serves the
reports too. The address is in the history of each check, so that it must not change from one start to the next: its
port is a setting. The path is for readers without the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import dagster as dg

from rivermeet.assets.reports.data_docs import GX
from rivermeet.expectations.gx.data_docs import anchor, page_of
from rivermeet.infra.settings import HOST, Settings
from rivermeet.pipelines import Node


def report_url(settings: Settings, page: Path) -> str:
    """Address of a page below the reports."""
    below = page.resolve().relative_to(settings.reports.resolve())
    return f"http://{HOST}:{settings.reports_port}/{quote(below.as_posix())}"


def page_metadata(settings: Settings, run: str, node: Node, epoch: int) -> Mapping[str, dg.MetadataValue]:
    """Metadata that lead to what Data Docs say of a node at an epoch; the page is written at the run's end."""
    page = page_of(settings.reports / GX, run)
    return {
        "data_docs": dg.MetadataValue.url(f"{report_url(settings, page)}#{quote(anchor(node, epoch))}"),
        "data_docs_path": dg.MetadataValue.path(page),
    }
