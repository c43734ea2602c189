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

from infra.settings import Settings

HOST = "127.0.0.1"


def report_url(settings: Settings, page: Path) -> str:
    """Address of a page below the reports."""
    below = page.resolve().relative_to(settings.reports.resolve())
    return f"http://{HOST}:{settings.reports_port}/{quote(below.as_posix())}"


def page_metadata(settings: Settings, page: Path | None) -> Mapping[str, dg.MetadataValue]:
    """Metadata that lead to a check's page, where there is one."""
    if page is None:
        return {}
    return {
        "data_docs": dg.MetadataValue.url(report_url(settings, page)),
        "data_docs_path": dg.MetadataValue.path(page),
    }
