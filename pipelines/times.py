"""Formats times and time spans, all in milliseconds.

1357034100000      2013-01-01 09:55 UTC
93784000           1.1 days
None               not recorded
"""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((31_557_600_000, "years"), (86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def moment(millis: int | None, missing: str = "not recorded") -> str:
    """A time in UTC; event times of any year."""
    if millis is None:
        return missing
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError):
        return f"{millis:,} ms"


def span(millis: int | None, missing: str = "not recorded") -> str:
    """A span of time in its largest unit; negative where the event's clock is ahead."""
    if millis is None:
        return missing
    size, unit = next((u for u in _UNITS if abs(millis) >= u[0]), (1, "ms"))
    return f"{millis / size:,.1f} {unit}" if size > 1 else f"{millis} ms"
