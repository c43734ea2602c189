"""What all kinds of source have in common: columns that say where a row stood, and how paths are written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from rivermeet.pipelines import limits

LINE_COLUMNS = ("file_rank", "file", "modified_ms", "member", "block", "row", "line", "text", "header")
"""``member`` is the archive's member or null, ``line`` the line's number where it is known.

``header`` is what the file says of its columns, without which ``text`` could not be read again.
"""
LOCAL = re.compile("^file:/+")
"""How Spark begins the path of a local file."""
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def spark_path(path: str) -> str:
    """Write the path as Spark's readers take it.

    They glob, and look for a path without a scheme in the cluster's own file system.
    """
    url = path if URL.match(path) else f"file://{path}"
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", url)


def path_of(uri: str) -> str:
    """The path that Spark writes as ``uri``."""
    return unquote(LOCAL.sub("/", uri))


def no_column(column: str, names: Iterable[str], found: int = 0) -> str:
    """Why a file without a declared column, or with ``found`` of that name, cannot be read."""
    shown = ", ".join(names)
    shown = shown if len(shown) <= limits.MESSAGE_WIDTH else f"{shown[: limits.MESSAGE_WIDTH]}…"
    has = "no column" if not found else "two columns"
    return f"the file has {has} '{column}' (it has {shown}); correct the file, or the schema of the source"
