"""A slice of the demo's flights: few enough to be delivered and run in a minute."""

from __future__ import annotations

import pyarrow as pa

SMALL = ("AS", "F9", "HA", "OO", "YV")
"""Carriers with few flights; beside them some of Delta's, as planes that come late are among those."""
DIVERTED = ("EV", 4204)
"""Has a flight that never reached its destination, and so a trip without an arrival."""


def in_slice(carrier: str, flight: int) -> bool:
    return carrier in SMALL or (carrier == "DL" and flight % 25 == 0) or (carrier, flight) == DIVERTED


def sliced(name: str, rows: pa.Table) -> pa.Table:
    """Of the rows of a file, those of the slice; all of another file than that of the flights."""
    if name != "flights.csv.zip":
        return rows
    columns = (rows[column].to_pylist() for column in ("carrier", "flight"))
    return rows.filter(pa.array([in_slice(c, int(f)) for c, f in zip(*columns, strict=True)]))
