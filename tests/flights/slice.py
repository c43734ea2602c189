"""A slice of the demo's flights: few enough to be delivered and run in a minute."""

from __future__ import annotations

SMALL = ("AS", "F9", "HA", "OO", "YV")
"""Carriers with few flights; beside them some of Delta's, as planes that come late are among those."""
DIVERTED = ("EV", 4204)
"""Has a flight that never reached its destination, and so a trip without an arrival."""


def in_slice(carrier: str, flight: int) -> bool:
    return carrier in SMALL or (carrier == "DL" and flight % 25 == 0) or (carrier, flight) == DIVERTED


def sliced(name: str, rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Of the rows of a file, those of the slice; all of another file than that of the flights."""
    flights = name == "flights.csv.zip"
    return [row for row in rows if not flights or in_slice(row["carrier"], int(row["flight"]))]
