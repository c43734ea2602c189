"""Event time of a row: a wall clock in a zone, or epoch millis, to epoch millis."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

_MILLIS = (T.LongType, T.IntegerType, T.ShortType, T.ByteType)
_CLOCKS = (T.TimestampType, T.TimestampNTZType, T.DateType)


def check_event_time(sql: str, kind: T.DataType) -> None:
    """ValueError for an expression whose type says nothing about time."""
    if not isinstance(kind, _MILLIS + _CLOCKS):
        raise ValueError(
            f"event time '{sql}' is {kind.simpleString().upper()}; give a TIMESTAMP, a DATE or BIGINT epoch millis"
        )


def needs_zone(kind: T.DataType) -> bool:
    """Whether a value of that type is a wall clock, and not a point in time already."""
    return isinstance(kind, _CLOCKS)


def event_millis(moment: Column, kind: T.DataType, zone: Column) -> Column:
    """Epoch millis of ``moment``, null where it or the zone of its clock is none.

    A number is epoch millis as it stands. A TIMESTAMP is read as a wall clock of ``zone`` (the
    session's zone is UTC), a DATE as its midnight. An hour that summer time skips counts from
    before the change (02:30 is 03:30), and of an hour that comes twice the first is meant (test:
    daylight saving).
    """
    if isinstance(kind, _MILLIS):
        return moment.cast("bigint")
    clock = moment.try_cast("timestamp")
    return F.when(is_zone(zone), F.unix_millis(F.to_utc_timestamp(clock, zone)))


def is_zone(zone: Column) -> Column:
    """Whether Spark knows the zone; ``to_utc_timestamp`` would fail the query on another."""
    probe = F.concat(F.lit("2000-01-01 00:00:00 "), zone).try_cast("timestamp")
    return (F.length(F.trim(zone)) > 0) & F.isnotnull(probe)
