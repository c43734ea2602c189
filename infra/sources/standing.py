"""Information about a source for display: lag, freshness, the quality report, and problems.

Freshness of tables of Delta and PostgreSQL:

| the table | freshness 30 min | is fresh |
|---|---|---|
| was read to its end, last month | | yes: nothing is unread |
| has an unread change of 10 min ago | | yes |
| the same, 40 min ago | | no |
| had only compaction since | | yes: no row has changed |
| lost its slot, or unread versions; cannot be reached; was never read | | no |

The time counts from the first unread change, by the clock of its commit. Held by
``tests/assets/defs/test_source_checks.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True)
class Standing:
    """The lag of a source in the kind's unit (None: unknown), and text lines about it, or why it is unknown."""

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
    """A table of the quality report; ``name`` is its name on the page.

    A column has a heading and the format of its cells: an ``age`` is the span from then (ms) to the time of the report.
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


@dataclass(frozen=True)
class FreshnessRule:
    """A Dagster check: its name, and its sentence, with ``{seconds}`` for the pipeline's freshness."""

    name: str
    sentence: str


TABLE_FRESHNESS = FreshnessRule(
    "table_is_fresh", "No change of the table has been there for more than {seconds} s and was not read."
)


class Unread(NamedTuple):
    """The unread part of a table: amount, unit, and commit time of its first change (epoch millis).

    ``since`` is None if it contains no change.
    """

    amount: int
    unit: str
    since: int | None


def is_fresh(unread: Unread | None, freshness_ms: int, now_ms: float) -> Fresh:
    """Judge the unread part of a table; None: it was never read."""
    if unread is None:
        return Fresh(False, "Nothing was read of the table yet.")
    seconds = 0.0 if unread.since is None else max(now_ms - unread.since, 0) / 1000
    return Fresh(
        seconds * 1000 <= freshness_ms,
        f"{unread.amount:,} {unread.unit} and {seconds:,.1f} s behind.",
        {"lag_seconds": seconds, f"lag_{unread.unit}": unread.amount},
    )
