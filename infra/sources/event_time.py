"""Event time of a row: converts a local time in a zone, or epoch millis, to epoch millis within the source's bounds.

One bad clock must not close every window: a record outside the declared bounds is a dead letter, and stream time does
not see it. ``max_ahead`` counts from the modification time of the record's file, which the plan pins, or from
the record's timestamp in its topic. If it counted from the
wall clock of the run, an epoch that is run again could have other records.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermeet.pipelines import Source
from rivermeet.pipelines.errors import SourceError
from rivermeet.pipelines.expressions import quote
from rivermeet.pipelines.source import instant_ms
from rivermeet.pipelines.sql_text import is_column, names_in
from rivermeet.pipelines.window import duration_ms
from rivermeet.records.type_text import kind_of

_MILLIS = (T.LongType, T.IntegerType, T.ShortType, T.ByteType)
_CLOCKS = (T.TimestampType, T.TimestampNTZType, T.DateType)
_DAY = 86_400
_SECONDS = 9_223_371_000_000
"""Limit of times in seconds before and after 1970: the range of Spark's TIMESTAMP except its last days.

Nearer to the end, the shift to a zone overflows and fails the query; beyond it, so does a window's end.
"""


def validate_event_time(sql: str, kind: T.DataType, declared: str | None) -> None:
    """Raise ValueError for an expression whose type is not a time, or not the declared one."""
    found = kind.simpleString().upper()
    if not isinstance(kind, _MILLIS + _CLOCKS):
        says = f"event time '{sql}' is {found}; give a TIMESTAMP, a DATE or BIGINT epoch millis"
        raise SourceError(says, timestamp=sql, type=found)
    wanted = None if declared is None else kind_of(declared)
    if wanted is not None and kind != wanted and not (isinstance(kind, _MILLIS) and isinstance(wanted, _MILLIS)):
        says = f"event time '{sql}' is {found}, and was declared {declared}; cast it"
        raise SourceError(says, timestamp=sql, type=found, declared=declared)


def needs_zone(kind: T.DataType) -> bool:
    """Whether a value of that type is a local time, and not an instant."""
    return isinstance(kind, _CLOCKS)


def with_moment(rows: DataFrame, source: Source, own: str, zone: Column, kind: T.DataType) -> DataFrame:
    """Add the result of the source's event-time expression, as ``OWNmoment``, ``OWNinstant`` and ``OWNdoubtful``.

    An instant is not shifted by a zone (``OWNinstant``, if the expression is a column). Other
    expressions see its local time in the zone, like all local times, and ``OWNdoubtful`` says that their
    result is in the repeated hour there. ``rows`` have ``OWN``, a struct with ``instants`` as `as_declared` gives them.
    """
    names = list(source.reads.schema)
    used = names_in(source.timestamp)
    clocks = {
        i: name for i, name in enumerate(names) if is_timestamp(source.reads.schema[name]) and name.lower() in used
    }
    moment = F.when(F.col(f"{own}kept"), F.expr(source.timestamp)).alias(f"{own}moment")
    never = F.lit(None).cast("timestamp").alias(f"{own}instant"), F.lit(False).alias(f"{own}doubtful")
    if source.time_zone == "UTC" or not clocks or not needs_zone(kind):
        return rows.select("*", moment, *never)
    are = {i: F.array_contains(F.col(f"{own}.instants"), i) for i in clocks}
    only = [i for i, name in clocks.items() if is_column(source.timestamp, name)]
    if only:
        instant = F.when(F.col(f"{own}kept") & are[only[0]], F.col(quote(clocks[only[0]])))
        return rows.select("*", moment, instant.alias(f"{own}instant"), never[1])
    rows = rows.select("*", zone.alias(f"{own}zone"), F.struct(*map(quote, names)).alias(f"{own}given"))
    there = F.col(f"{own}zone")
    shown = {clocks[i]: _wall_clock(F.col(quote(clocks[i])), there, of_column) for i, of_column in are.items()}
    columns = [shown.get(name, F.col(quote(name))).alias(name) for name in names]
    seen = rows.select(*columns, *[name for name in rows.columns if name.startswith(own)]).select("*", moment, never[0])
    some = reduce(or_, are.values())
    doubtful = some & _comes_twice(F.col(f"{own}moment").cast("timestamp"), there)
    doubtful = F.coalesce(doubtful, F.lit(False)).alias(f"{own}doubtful")
    back = [F.col(f"{own}given").getField(name).alias(name) for name in names]
    return seen.select(*back, *[name for name in seen.columns if name.startswith(own)], doubtful)


def as_instants(source: Source, own: str, zone: Column) -> dict[str, Column]:
    """TIMESTAMP columns as instants, by name: values with an offset as they are, others in the source's zone.

    Null if the zone is invalid. They are for keys and values that are such a column; expressions see the local time.
    """
    if source.time_zone == "UTC":
        return {}
    schema = source.reads.schema
    clocks = {i: name for i, name in enumerate(schema) if is_timestamp(schema[name])}
    instants = {name: F.array_contains(F.col(f"{own}.instants"), i) for i, name in clocks.items()}
    return {
        name: F.when(is_instant, F.col(quote(name))).otherwise(_in_zone(F.col(quote(name)), zone))
        for name, is_instant in instants.items()
    }


def is_timestamp(declared: str) -> bool:
    """Whether values of that type are instants, or become instants in a zone."""
    return declared.strip().upper() in ("TIMESTAMP", "TIMESTAMP_LTZ")


def _wall_clock(moment: Column, zone: Column, is_instant: Column) -> Column:
    """The local time of an instant in the zone; any other value unchanged."""
    sound = is_instant & F.unix_seconds(moment).between(-_SECONDS, _SECONDS) & is_zone(zone)
    return F.when(sound, F.from_utc_timestamp(moment, zone)).otherwise(moment)


def _comes_twice(clock: Column, zone: Column) -> Column:
    """Whether that local time occurs twice in the zone, because clocks are set back."""
    sound = F.unix_seconds(clock).between(-_SECONDS + _DAY, _SECONDS - _DAY) & is_zone(zone)
    first = F.unix_micros(F.to_utc_timestamp(clock, zone))

    def show(micros: Column) -> Column:
        return F.unix_micros(F.from_utc_timestamp(F.timestamp_micros(micros), zone))

    later = first + _DAY * 1_000_000
    # The amount by which clocks are set back within the day.
    back = (show(first) - first) - (show(later) - later)
    return F.when(sound, (back > 0) & (show(first + back) == show(first)))


def event_millis(moment: Column, kind: T.DataType, zone: Column, instant: Column) -> Column:
    """Epoch millis of ``moment``, null if it or its zone is invalid, or if it is beyond all times.

    A number is epoch millis, and so is an ``instant`` that is not null. A TIMESTAMP is read as a
    wall clock of ``zone`` (the session's zone is UTC), a DATE as its midnight. An hour that summer time skips counts
    from before the change (02:30 is 03:30), and of an hour that comes twice the first is meant (test: daylight saving).
    """
    if isinstance(kind, _MILLIS):
        millis = moment.cast("bigint")
        return F.when(millis.between(-_SECONDS * 1000, _SECONDS * 1000), millis)
    certain = F.unix_seconds(instant).between(-_SECONDS, _SECONDS)
    there = F.unix_millis(_in_zone(moment.try_cast("timestamp"), zone))
    return F.when(F.isnotnull(instant), F.when(certain, F.unix_millis(instant))).otherwise(there)


def _in_zone(clock: Column, zone: Column) -> Column:
    """The first instant with that local time in the zone; null if there is none."""
    sound = F.unix_seconds(clock).between(-_SECONDS, _SECONDS) & is_zone(zone)
    return F.when(sound, F.to_utc_timestamp(clock, zone))


def is_zone(zone: Column) -> Column:
    """Whether Spark knows the zone; ``to_utc_timestamp`` would fail the query for others."""
    probe = F.concat(F.lit("2000-01-01 00:00:00 "), zone).try_cast("timestamp")
    return (F.length(F.trim(zone)) > 0) & F.isnotnull(probe)


def out_of_bounds(source: Source, timestamp: Column, modified: Column) -> list[Column]:
    """For each declared bound the reason why an event time is outside, null if it is not.

    ``modified`` is the modification time of the record's file, or its Kafka timestamp, in epoch millis.
    """
    problems: list[Column] = []

    def problem(outside: Column, *says: Column | str) -> None:
        parts = [F.lit(part) if isinstance(part, str) else part for part in says]
        problems.append(F.when(outside, F.concat(F.lit("event time "), _show_time(timestamp), *parts)))

    if source.not_before is not None:
        first = instant_ms("not_before", source.not_before)
        problem(timestamp < first, f" is before not_before={source.not_before}")
    if source.not_after is not None:
        last = instant_ms("not_after", source.not_after)
        problem(timestamp > last, f" is after not_after={source.not_after}")
    if source.max_ahead is not None:
        says = f" is more than max_ahead={source.max_ahead} after {source.reads.clock}, "
        problem(timestamp - modified > duration_ms(source.max_ahead), says, _show_time(modified))
    return problems


def _show_time(millis: Column) -> Column:
    return F.concat(F.timestamp_millis(millis).cast("string"), F.lit(" UTC"))
