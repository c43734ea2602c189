"""Templates of pages: all that they are given is escaped, and a name that they do not know is an error.

Filters write numbers, times and spans of time: ``27,924``, ``2013-01-01 09:55 UTC``, ``1.1 days``, ``not recorded``.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.times import moment, span

if TYPE_CHECKING:
    from jinja2 import Environment


def templates_of(package: str) -> Environment:
    """Those in a package's ``page_files``."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader(package, "page_files"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"number": number, "counted": pluralize, "moment": moment, "span": span, "short": short}
    return templates


def write_whole(path: Path, text: str) -> None:
    """Write a page as a whole: a reader who has it open sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part", delete=False) as written:
        written.write(text.encode())
    os.chmod(written.name, 0o644)
    os.replace(written.name, path)


def number(n: float | None, missing: str = "not recorded") -> str:
    """A number with thousands separators."""
    if n is None:
        return missing
    return f"{n:,.3f}" if isinstance(n, float) else f"{n:,}"


def short(n: int | None) -> str:
    """A count in at most three digits, for a small cell."""
    if n is None:
        return ""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if n >= size:
            return f"{n // size}{unit}"
    return str(n)
