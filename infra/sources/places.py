"""Shared by all kinds of source: columns for the place of a row, and the format of paths."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from rivermeet.pipelines import limits

LINE_COLUMNS = ("file_rank", "file", "modified_ms", "member", "block", "row", "line", "text", "header")
"""``member`` is the archive's member or null, ``line`` the line's number if it is known.
``header`` describes the file's columns; without it ``text`` could not be read again.
"""
LOCAL = re.compile("^file:/+")
"""Spark's prefix of the path of a local file."""
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def spark_path(path: str) -> str:
    """The path in the form of Spark's readers.

    They expand patterns, and resolve a path without a scheme in the cluster's own file system.
    """
    url = path if URL.match(path) else f"file://{path}"
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", url)


def path_of(uri: str) -> str:
    """The path from Spark's ``uri``."""
    return unquote(LOCAL.sub("/", uri))


def no_column(column: str, names: Iterable[str], found: int = 0) -> str:
    """Why a file without a declared column, or with ``found`` of that name, cannot be read."""
    shown = ", ".join(names)
    shown = shown if len(shown) <= limits.MESSAGE_WIDTH else f"{shown[: limits.MESSAGE_WIDTH]}…"
    has = "no column" if not found else "two columns"
    return f"the file has {has} '{column}' (it has {shown}); correct the file, or the schema of the source"
