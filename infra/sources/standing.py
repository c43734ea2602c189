"""What a source says of itself to those who look at it: status, freshness, the quality report, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True)
class Standing:
    """How far a source is behind what it reads.

    Attributes
    ----------
    behind
        In files, offsets, versions, bytes: what the kind counts. None: nobody knows.
    lines
        What there is to say about it, or why nobody knows.
    """

    behind: int | None = None
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class Fresh:
    """Whether a source is fresh, why, and numbers by name."""

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
        What the page calls it.
    columns
        Heading, and how cells below it are written: an ``age`` is the span from then (ms) to the time of the report.
    """

    name: str
    caption: str
    columns: Sequence[tuple[str, Form]]
    rows: Sequence[Sequence[Any]]


class Finding(NamedTuple):
    """A line about a source, whether it is good, and else the SQL statements that cure it in a database, if any do."""

    line: str
    is_good: bool
    database: str = ""
    cure: Sequence[str] = ()
