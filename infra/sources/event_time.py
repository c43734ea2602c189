"""Event time of a row: a wall clock in a zone, or epoch millis, to epoch millis within the source's bounds.

One bad clock must not close every window: a record outside the declared bounds is a dead letter, and stream time does
not see it. ``max_ahead`` counts from the modification time of the record's file, which the plan pins, or from
the record's timestamp in its topic; counted from the
wall clock of the run, an epoch run again could have other records.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines import Files, Kafka, Source
from pipelines.source import instant_ms
from pipelines.window import duration_ms

_MILLIS = (T.LongType, T.IntegerType, T.ShortType, T.ByteType)
_CLOCKS = (T.TimestampType, T.TimestampNTZType, T.DateType)
_SECONDS = 9_223_371_000_000
"""Seconds from 1970, either way, that count as a time: what Spark's TIMESTAMP holds but for its last days.

Nearer to the end, the shift to a zone overflows and fails the query; beyond it, so does a window's end.
"""


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
    """Epoch millis of ``moment``, null where it or the zone of its clock is none, or it is beyond all times.

    A number is epoch millis as it stands. A TIMESTAMP is read as a wall clock of ``zone`` (the
    session's zone is UTC), a DATE as its midnight. An hour that summer time skips counts from
    before the change (02:30 is 03:30), and of an hour that comes twice the first is meant (test:
    daylight saving).
    """
    if isinstance(kind, _MILLIS):
        millis = moment.cast("bigint")
        return F.when(millis.between(-_SECONDS * 1000, _SECONDS * 1000), millis)
    clock = moment.try_cast("timestamp")
    sound = F.unix_seconds(clock).between(-_SECONDS, _SECONDS) & is_zone(zone)
    return F.when(sound, F.unix_millis(F.to_utc_timestamp(clock, zone)))


def is_zone(zone: Column) -> Column:
    """Whether Spark knows the zone; ``to_utc_timestamp`` would fail the query on another."""
    probe = F.concat(F.lit("2000-01-01 00:00:00 "), zone).try_cast("timestamp")
    return (F.length(F.trim(zone)) > 0) & F.isnotnull(probe)


def out_of_bounds(source: Source, timestamp: Column, modified: Column) -> list[Column]:
    """For each declared bound the reason why a time is outside, null where it is not.

    Parameters
    ----------
    timestamp
        Event time, as `event_millis` gives it.
    modified
        Modification time of the record's file, or the timestamp that Kafka has of it, epoch millis.
    """
    problems: list[Column] = []

    def problem(outside: Column, *says: Column | str) -> None:
        parts = [F.lit(part) if isinstance(part, str) else part for part in says]
        problems.append(F.when(outside, F.concat(F.lit("event time "), _shown(timestamp), *parts)))

    if source.not_before is not None:
        first = instant_ms("not_before", source.not_before)
        problem(timestamp < first, f" is before not_before={source.not_before}")
    if source.not_after is not None:
        last = instant_ms("not_after", source.not_after)
        problem(timestamp > last, f" is after not_after={source.not_after}")
    if source.max_ahead is not None:
        clocks = {Files: "its file was modified", Kafka: "the timestamp that Kafka has of it"}
        since = clocks.get(type(source.reads), "its commit")
        says = f" is more than max_ahead={source.max_ahead} after {since}, "
        problem(timestamp - modified > duration_ms(source.max_ahead), says, _shown(modified))
    return problems


def _shown(millis: Column) -> Column:
    return F.concat(F.timestamp_millis(millis).cast("string"), F.lit(" UTC"))
