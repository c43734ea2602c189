"""How the report writes numbers, times and spans of time.

27924              27,924
1357034100000      2013-01-01 09:55 UTC
93784000           1.1 days
None               not recorded
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rivermeet.pipelines.times import moment, span


def number(n: float | None, missing: str = "not recorded") -> str:
    """A number with its thousands apart."""
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


FILTERS: Mapping[str, Callable[..., str]] = {"number": number, "moment": moment, "span": span, "short": short}
"""Names that the template knows them by."""
