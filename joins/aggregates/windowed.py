"""stream → windowed table: each record updates every window of its key that contains it, one row per window.

- A record without a key or a value is skipped, and does not advance stream time. One that has only no key goes to
  the late table.
- A window takes records while ``window_end + grace > stream time``, the record's own timestamp included. A record that
  is late for all its windows goes to the late table.
- A row's key is the record's with ``window_start`` and ``window_end`` (ms, the end excluded). Its timestamp is the
  highest of the window's records so far. The rows of one record are in order of ``window_start``.
- Windows start at 0 and at every multiple of ``advance``; a record before 1970 is in none, and goes to the late
  table.

size = 10, advance = 5, grace = 0, count:

    a @7      (a, 0-10) 1 @7, (a, 5-15) 1 @7
    a @12     (a, 5-15) 2 @12, (a, 10-20) 1 @12
    a @8      (a, 5-15) 3 @12                          0-10 is closed
    a @3      nothing: late

Windows that are open now were open at every earlier record, so the state is the records inside one.
Sliding windows are placed by ``joins/aggregates/sliding.py``; all else is the same.

Source: wiki page "Early joins" (windowed aggregate), KIP-328 (grace), released Kafka Streams. Held by
``tests/joins/aggregates/test_windowed_aggregate.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.aggregates.running import add_arguments, aggregate_over
from rivermeet.joins.aggregates.sliding import place_in_sliding_windows
from rivermeet.joins.late import before_1970, past_close, without_key
from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.order import stream_time_at_start, up_to_here
from rivermeet.joins.provenance import trigger_of
from rivermeet.joins.values import nothing_like
from rivermeet.pipelines import SlidingWindows, WindowedAggregate

READS_ONCE = True


def state(operation: WindowedAggregate) -> StateRead:
    """Open records."""
    return {"left": "open"}


def compute(operation: WindowedAggregate, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    new = inputs.keep(_add_stream_time(inputs, _number(operation, inputs, inputs.left)))
    closed = F.col("last_close") <= F.col("reached")
    taken = new.where(~closed).drop("json").unionByName(_open(operation, inputs))
    sliding = isinstance(operation.windows, SlidingWindows)
    placed = place_in_sliding_windows(inputs.keep(taken)) if sliding else _place_in_time_windows(taken)
    # A window that is closed at a record stays closed: its content no longer matters.
    known = F.coalesce(F.col("reached"), stream_time_at_start(inputs))
    within = placed.where(F.col("window_end") + F.col("window_grace") > known)
    history = Window.partitionBy("partition", "key", "window_start").orderBy(F.col("order").asc_nulls_first(), "offset")
    upto = up_to_here(history)
    latest = F.max(F.when(F.col("arguments").isNotNull(), F.col("timestamp"))).over(upto)
    rows = (
        within.withColumn("value", aggregate_over(operation.aggregations, upto))
        .withColumn("timestamp", latest)
        .where(F.col("order").isNotNull() & F.col("shown"))
    )
    return EpochFrames(
        rows.select(
            F.struct("key.*", "window_start", "window_end").alias("key"),
            "value",
            "timestamp",
            "partition",
            trigger_of("left"),
            F.struct("order", "window_start").alias("sequence"),
        ),
        _find_dropped(operation, inputs, new.where(closed)),
        timed=(new,),
    )


def _find_dropped(operation: WindowedAggregate, inputs: EpochInputs, late: DataFrame) -> DataFrame:
    """Late records, and those that no key or no window gives a place."""
    side, json = F.lit("left"), F.to_json("value")
    closed = past_close(late, side, F.col("json"), F.col("reached"), F.col("last_close"))
    valued = inputs.left.where(F.col("value").isNotNull())
    dropped = closed.unionByName(without_key(valued.where(F.col("key").isNull()), side, json))
    if isinstance(operation.windows, SlidingWindows):
        return dropped
    early = valued.where(F.col("key").isNotNull() & (F.col("timestamp") < 0))
    return dropped.where("close IS NULL OR timestamp >= 0").unionByName(before_1970(early, side, json))


def _number(operation: WindowedAggregate, inputs: EpochInputs, records: DataFrame) -> DataFrame:
    """Records with key and value, with ``arguments``, the windows' numbers and the last close of their windows."""
    usable = records.where(F.col("key").isNotNull() & F.col("value").isNotNull())
    windows = operation.windows
    grace = F.col("window_grace")
    if isinstance(windows, SlidingWindows):
        numbered = inputs.numbers(usable, window_difference=windows.difference, window_grace=windows.grace)
        numbers, end = ("window_difference",), F.col("timestamp") + F.col("window_difference") + 1
    else:
        numbered = inputs.numbers(
            usable, window_size=windows.size, window_advance=windows.advance, window_grace=windows.grace
        )
        numbers, end = ("window_size", "window_advance"), _last_start() + F.col("window_size")
    named = ("key", "timestamp", "partition", "offset", "order", "arguments", *numbers, "window_grace")
    return add_arguments(numbered, operation.aggregations).select(
        *named, (end + grace).alias("last_close"), F.to_json("value").alias("json")
    )


def _add_stream_time(inputs: EpochInputs, counted: DataFrame) -> DataFrame:
    """The epoch's records with the stream time that each has ``reached``."""
    upto = up_to_here(Window.partitionBy("partition").orderBy("order"))
    reached = F.greatest(F.max("timestamp").over(upto), stream_time_at_start(inputs))
    return counted.select("*", reached.alias("reached"))


def _open(operation: WindowedAggregate, inputs: EpochInputs) -> DataFrame:
    """Records of earlier epochs; their ``order`` is NULL: before all of this epoch's."""
    records = inputs.open_records("left", operation.open_ms)
    unordered = records.withColumn("order", nothing_like(inputs.left, "order"))
    return _number(operation, inputs, unordered).drop("json").select("*", F.lit(None).cast("bigint").alias("reached"))


def _last_start() -> Column:
    """Start of the last window that contains a record."""
    return F.col("timestamp") - F.pmod(F.col("timestamp"), F.col("window_advance"))


def _place_in_time_windows(records: DataFrame) -> DataFrame:
    """Records once per window, with ``window_start``, ``window_end`` and ``shown``."""
    size, advance = F.col("window_size"), F.col("window_advance")
    after = F.greatest(F.col("timestamp") - size + advance, F.lit(0).cast("bigint"))
    starts = F.sequence(after - F.pmod(after, advance), _last_start(), advance)
    return (
        records.where(F.col("timestamp") >= 0)
        .select("*", F.explode(starts).alias("window_start"))
        .select("*", (F.col("window_start") + size).alias("window_end"))
        .select("*", F.lit(True).alias("shown"))
    )
