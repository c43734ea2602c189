"""Information about a source for display: lag, freshness, the quality report, and problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True)
class Standing:
    """The lag of a source.

    Attributes
    ----------
    behind
        In the kind's unit: files, offsets, versions, bytes. None: unknown.
    lines
        Text lines about it, or why it is unknown.
    """

    behind: int | None = None
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class Fresh:
    """Whether a source is fresh, the reason, and numbers by name."""

    passed: bool
    description: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


Form = Literal["text", "number", "moment", "age"]


@dataclass(frozen=True)
class ReportTable:
    """A table of the quality report.

    Attributes
    ----------
    name
        Its name on the page.
    columns
        Heading, and format of the cells below it: an ``age`` is the span from then (ms) to the time of the report.
    """

    name: str
    caption: str
    columns: Sequence[tuple[str, Form]]
    rows: Sequence[Sequence[Any]]


class Finding(NamedTuple):
    """A line about a source, whether it is a success, and the SQL statements that fix it in a database, if any."""

    line: str
    is_good: bool
    database: str = ""
    cure: Sequence[str] = ()
