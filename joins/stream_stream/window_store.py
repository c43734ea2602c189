"""Look-ups in the other side's window store, in the profiles of released Kafka Streams.

Each side has a store. Record x looks up in the other side's: same key, and timestamp in x's window, cut at 0 at both
ends. The store expires records by its own time: T, the newest timestamp among *that side's* earlier records. With
R = before + after + grace, a look-up finds records that are not older than the floor:

- `BOUNDED` ("kafka-4"): T - R + 1, to the millisecond.
- `SEGMENTED` ("0.10.2"): the start of the segment of T - R; a segment takes R / 2, at least a minute.
- `EARLY` ("0.10.0"): the start of the second segment before T's, each of twelve hours. A null value looks up as well,
  and advances T, but is not stored.

Window 10/10, no grace, so R = 20; "kafka-4":

    left  A @0
    left  B @30       the left store's time is 30, its floor 11
    right a @5        nothing: A is in a's window and below the floor
    right b @1000     advances the right store's time only: right c @30 would still find B

Everything here is a running maximum over the epoch's records and one join; ``at`` numbers the records of a partition
in their order, NULL before the epoch. T at the start of an epoch is operator state (`times`).

Source: released Kafka Streams 4.x, 3.0 and 0.10.1 (window stores). Held by
``tests/joins/stream_stream/test_recorded.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochInputs
from rivermeet.joins.order import LEFT, RIGHT, before_here, stream_time_at_start, up_to_here
from rivermeet.joins.stream_stream.profile_3_1 import OUTER_SIDES, select_dropped
from rivermeet.joins.stream_stream.self_join import COPIES, both_inputs, is_self_join
from rivermeet.joins.stream_stream.time_buckets import lies_in, list_buckets, width
from rivermeet.joins.values import with_record
from rivermeet.pipelines import StreamStreamJoin

SMALLEST_SEGMENT, EARLY_SEGMENT = 60_000, 43_200_000  # ms
BEFORE_ALL = -1
"""Time of a store or a partition without records."""


@dataclass(frozen=True)
class Store:
    """How a profile's stores work: ``floor`` of (time of the store, R), and whether a null value takes part."""

    floor: Callable[[Column, Column], Column]
    null_values: bool = False


def _start_of_segment(time: Column, retention: Column) -> Column:
    # Half of R, rounded down, without leaving whole numbers.
    segment = F.greatest(F.shiftright(retention, 1), F.lit(SMALLEST_SEGMENT))
    oldest = F.greatest(F.lit(0), time - retention)
    return oldest - oldest % segment


BOUNDED = Store(lambda time, retention: time - retention + 1)
SEGMENTED = Store(_start_of_segment)
EARLY = Store(lambda time, _: time - time % EARLY_SEGMENT - 2 * EARLY_SEGMENT, null_values=True)


def of_side(join: StreamStreamJoin, inputs: EpochInputs, records: DataFrame, side: int) -> DataFrame:
    """Records of one side with the declared numbers."""
    own, window = "left" if side == LEFT else "right", join.window
    numbered = inputs.numbers(
        with_record(records, own), window_before=window.before, window_after=window.after, window_grace=window.grace
    )
    return numbered.select(
        *(F.lit(side).alias("side"), "partition", "offset", "key", "timestamp", own),
        *(c for c in ("order",) if c in records.columns),
        (F.col("key").isNotNull() & F.col("value").isNotNull()).alias("stored"),
        *("window_before", "window_after", "window_grace"),
        (F.col("window_before") + F.col("window_after") + F.col("window_grace")).alias("retention"),
    )


def look_up(join: StreamStreamJoin, inputs: EpochInputs, store: Store, memory: DataFrame | None) -> DataFrame:
    """The epoch's records of both sides, and what each may find: timestamps from ``earliest`` to ``latest``.

    ``asks``: whether it looks up at all. ``time``: stream time once it is processed; ``store_time``: T of the store
    that it asks, ``own_time``: of the one that it is put into.
    """
    records = both_inputs(join, inputs)
    sides = [of_side(join, inputs, records[name], side) for name, side in COPIES.items()]
    both = sides[0].unionByName(sides[1], allowMissingColumns=True)
    if memory is None:
        nothing = F.lit(None).cast("bigint")
        both = both.select("*", nothing.alias("left_time"), nothing.alias("right_time"))
    else:
        both = both.join(F.broadcast(memory.select("partition", "left_time", "right_time")), "partition", "left")
    in_order = Window.partitionBy("partition").orderBy("order")
    upto = up_to_here(in_order)
    earlier = before_here(in_order)
    takes_part = F.col("key").isNotNull() if store.null_values else F.col("stored")

    def time_of(side: int) -> Column:
        own = F.when(takes_part & (F.col("side") == side), F.col("timestamp"))
        at_start = F.col("left_time" if side == LEFT else "right_time")
        return F.greatest(F.max(own).over(earlier), at_start, F.lit(BEFORE_ALL))

    is_left = F.col("side") == LEFT
    # The optimized self-join has one store, which its second look-up asks before the record is put there.
    asks_right = F.lit(True) if join.optimized else is_left
    timed = both.select(
        "*",
        F.row_number().over(in_order).cast("bigint").alias("at"),
        F.greatest(F.max("timestamp").over(upto), stream_time_at_start(inputs), F.lit(BEFORE_ALL)).alias("time"),
        F.when(asks_right, time_of(RIGHT)).otherwise(time_of(LEFT)).alias("store_time"),
        F.when(is_left & F.lit(not join.optimized), time_of(LEFT)).otherwise(time_of(RIGHT)).alias("own_time"),
        takes_part.alias("takes_part"),
    )
    before = F.when(is_left, F.col("window_before")).otherwise(F.col("window_after"))
    after = F.when(is_left, F.col("window_after")).otherwise(F.col("window_before"))
    floor = store.floor(F.col("store_time"), F.col("retention"))
    return timed.select(
        "*",
        F.col("takes_part").alias("asks"),
        F.greatest(F.lit(0), F.col("timestamp") - before, floor).alias("earliest"),
        F.greatest(F.lit(0), F.col("timestamp") + after).alias("latest"),
    ).drop("order", "left_time", "right_time")


def pairs(
    join: StreamStreamJoin, inputs: EpochInputs, asked: DataFrame, store: Store, memory: DataFrame | None
) -> DataFrame:
    """What the epoch's look-ups find: both records of each pair, and ``by``, ``found``: the later and the earlier."""
    columns = ("side", "partition", "offset", "key", "timestamp", "at", "stored", "asks", "earliest", "latest")
    bounds = ("window_before", "window_after")
    extra = ("store_time", "retention") if join.optimized else ()
    everything = asked.select(*columns, *bounds, *extra, "left", "right")
    if memory is not None:
        everything = everything.unionByName(_read_stored(join, inputs, store, memory), allowMissingColumns=True)
    # With the record's own time in reach: a window cut at 0 may find records outside it, and a record meets itself.
    before, after = (F.greatest(bound, F.lit(0)) for bound in bounds)
    bucket, time = width(before + after), F.col("timestamp")
    lefts = everything.where(F.col("side") == LEFT)
    lefts = lefts.select("*", F.explode(list_buckets(time - before, time + after, bucket)).alias("bucket"))
    rights = everything.where(F.col("side") == RIGHT).select("*", lies_in(time, bucket).alias("bucket"))
    left, right = lefts.drop("right").alias("l"), rights.drop("left").alias("r")

    def finds(x: str, o: str) -> Column:
        in_sight = F.col(f"{o}.timestamp").between(F.col(f"{x}.earliest"), F.col(f"{x}.latest"))
        return F.col(f"{x}.asks") & F.col(f"{o}.stored") & in_sight

    right_is_later = F.col("r.at").isNotNull() & (F.col("l.at").isNull() | (F.col("l.at") < F.col("r.at")))
    found = F.when(right_is_later, finds("r", "l")).otherwise(finds("l", "r"))
    if join.optimized:
        store_time = F.greatest("r.store_time", "r.timestamp")
        # A record meets itself without a look-up, which asks no window, and is one ms stricter than the floor.
        itself = F.col("r.asks") & (F.col("r.timestamp") > BOUNDED.floor(store_time, F.col("r.retention")))
        found = F.when(F.col("l.offset") == F.col("r.offset"), itself).otherwise(found)
    together = [F.col(f"l.{column}") == F.col(f"r.{column}") for column in ("partition", "key", "bucket")]
    matched = left.join(right, [*together, found])

    def one(x: str, alias: str) -> Column:
        return F.struct(*(F.col(f"{x}.{c}") for c in ("side", "offset", "timestamp", "at"))).alias(alias)

    return matched.select(
        F.col("l.partition").alias("partition"),
        F.col("l.key").alias("key"),
        F.when(right_is_later, one("r", "by")).otherwise(one("l", "by")).alias("by"),
        F.when(right_is_later, one("l", "found")).otherwise(one("r", "found")).alias("found"),
        F.col("l.offset").alias("left_offset"),
        F.col("r.offset").alias("right_offset"),
        "left",
        "right",
    )


def _read_stored(join: StreamStreamJoin, inputs: EpochInputs, store: Store, memory: DataFrame) -> DataFrame:
    """Records of earlier epochs that a look-up may still find."""
    sides: list[DataFrame] = []
    for name, side in COPIES.items():
        time = memory.select("partition", F.col(f"{name}_time").alias("own_time"))
        records = of_side(join, inputs, inputs.earlier(name), side).join(F.broadcast(time), "partition", "left")
        floor = store.floor(F.coalesce("own_time", F.lit(BEFORE_ALL)), F.col("retention"))
        found = records.where(F.col("stored") & (F.col("timestamp") >= floor))
        sides.append(
            found.select(
                *("side", "partition", "offset", "key", "timestamp", "stored", "window_before", "window_after", name)
            )
        )
    return sides[0].unionByName(sides[1], allowMissingColumns=True).select("*", F.lit(False).alias("asks"))


def not_kept(join: StreamStreamJoin, asked: DataFrame) -> DataFrame:
    """Late rows of profile "kafka-4": records that their own store is past, so that no later one will find them."""
    closing = asked.select(
        "*", F.col("own_time").alias("before"), (F.col("timestamp") + F.col("retention")).alias("close")
    )
    late = closing.where(F.col("takes_part") & (F.col("before") >= F.col("close")))
    if is_self_join(join):
        late = late.where(F.col("side") == LEFT)
    usable = asked.where(F.col("left").isNotNull() | F.col("right").isNotNull())
    return select_dropped(usable, late, join)


def alone(join: StreamStreamJoin, asked: DataFrame, pairs: DataFrame) -> DataFrame:
    """Records of outer sides that look up and find nothing."""
    answered = pairs.select("partition", F.col("by.at").alias("at")).distinct()
    outer = asked.where(F.col("asks") & F.col("side").isin(*OUTER_SIDES[join.how]))
    return outer.join(answered, ["partition", "at"], "left_anti")


def times(asked: DataFrame, memory: DataFrame | None, *more: DataFrame) -> DataFrame:
    """The operator's memory: a row for each partition known so far, with both stores' times."""
    sides = {name: F.when(F.col("side") == side, F.col("timestamp")) for name, side in COPIES.items()}
    frames = [asked.select("partition", *(F.when(F.col("takes_part"), t).alias(f"{n}_time") for n, t in sides.items()))]
    frames += [] if memory is None else [memory]
    frames += more
    every = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
    names = [c for c in every.columns if c != "partition"]
    return every.groupBy("partition").agg(*(F.max(c).alias(c) for c in names))


def memory_of(inputs: EpochInputs) -> DataFrame | None:
    """What the last epoch left."""
    memory = inputs.memory()
    return None if memory is None else inputs.keep(memory)
