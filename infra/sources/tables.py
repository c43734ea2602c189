"""What tables of Delta and of PostgreSQL have in common: when one is fresh.

| the table | freshness 30 min | is fresh |
|---|---|---|
| was read to its end, last month | | yes: nothing is missing |
| got a change 10 min ago that was not read | | yes |
| the same, 40 min ago | | no |
| got nothing but compaction since | | yes: no row has changed |
| lost its slot, or versions that were not read; cannot be asked; was never read | | no |

The time counts from the first change that was not read, by the clock of its commit. Held by
``tests/assets/defs/test_source_checks.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from rivermeet.infra.sources.kind import FreshnessRule
from rivermeet.infra.sources.standing import Fresh

FRESHNESS = FreshnessRule(
    "table_is_fresh", "No change of the table has been there for more than {seconds} s and was not read."
)


class Unread(NamedTuple):
    """What was not read of a table: how much, of what, and when the first change of it was committed (epoch millis).

    ``since`` is None where no change is in it.
    """

    amount: int
    unit: str
    since: int | None


def is_fresh(unread: Unread | None, freshness_ms: int, now_ms: float) -> Fresh:
    """Judge what was not read of a table; None: it was never read."""
    if unread is None:
        return Fresh(False, "Nothing was read of the table yet.")
    seconds = 0.0 if unread.since is None else max(now_ms - unread.since, 0) / 1000
    return Fresh(
        seconds * 1000 <= freshness_ms,
        f"{unread.amount:,} {unread.unit} and {seconds:,.1f} s behind.",
        {"lag_seconds": seconds, f"lag_{unread.unit}": unread.amount},
    )
