"""A hook of MkDocs: a link to a file outside the site, such as a test, becomes the file's name in the project."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?(?: \"([^\"]*)\")?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leave links within the site as they are."""
    folder = posixpath.dirname(page.file.src_uri)

    def show(match: re.Match[str]) -> str:
        text, target, _, title = match.groups()
        if ":" in target or not posixpath.normpath(posixpath.join(folder, target)).startswith("../"):
            return match[0]
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        return f'<span title="{path}{f"::{title}" if title else ""}">{text}</span>'

    return _LINK.sub(show, markdown)
