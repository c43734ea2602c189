"""stream ⋈ stream: records of one key join within the window; an unmatched one is emitted when its window closes.

With x the record processed now, o an earlier one, and S⁻ the partition's stream time before x:

- ``close(left) = timestamp + max(after, 0) + grace``, ``close(right) = timestamp + max(before, 0) + grace``.
- Late: ``S⁻ >= close(x)``. x is dropped, counted and kept in the late table.
- Pair: same key, ``left.timestamp - before <= right.timestamp <= left.timestamp + after``, and ``S⁻ < close(o)``.
- One-sided row: an unmatched record of an outer side is emitted when stream time reaches its close, after the pairs
  of the record that advanced it.
- Every record advances stream time. A null value does nothing else; a null key gives a one-sided row at once.

before = after = 15, grace = 5, left join:

    left  A @3                    nothing yet
    right a @4                    A-a    timestamp 4
    left  E @40                   nothing yet
    left  F @60                   E-null timestamp 40   (60 >= 40 + 15 + 5)

It cannot be spurious: a pair needs o open, a one-sided row needs it closed and unpaired, and a closed window stays
closed. So the state consists of open records: earlier ones with ``close > stream time``, and which of them are paired
according to the join's own rows. A record that was late is closed, so the late table is not read.

In a self-join each record is a left and a right one in one step: both copies have the same S⁻, and rows of what
closes come after the pairs of both. x joins itself if 0 is in the window and neither copy is late; without a partner
each copy is a separate record.

Source: wiki page "Kafka Streams Join Semantics", improved left/outer stream-stream join (3.1 and newer); KIP-633,
KAFKA-10847, KIP-962. Held by ``tests/joins/stream_stream/test_stream_stream.py`` and
``test_recorded.py`` beside it.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.late import past_close, without_key
from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.order import LEFT, RIGHT, before_here, in_words, stream_time_at_start
from rivermeet.joins.provenance import trigger_of
from rivermeet.joins.stream_stream.self_join import COPIES, both_inputs, is_self_join
from rivermeet.joins.stream_stream.time_buckets import lies_in, list_buckets, width
from rivermeet.joins.tables.as_of import first_to_reach
from rivermeet.joins.values import join_values, nothing_like, with_record
from rivermeet.pipelines import JoinWindow, StreamStreamJoin

OUTER_SIDES = {"inner": (), "left": (LEFT,), "outer": (LEFT, RIGHT)}


READS_ONCE = True


def state(join: StreamStreamJoin) -> StateRead:
    """Open records of both sides."""
    return {"left": "open", "right": "open"}


def compute(join: StreamStreamJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`, and ``left_offset``, ``right_offset`` of the joined records."""
    window, outer = join.window, OUTER_SIDES[join.how]
    arrived = _with_stream_time(inputs, join)
    # Kept once, with what is open: Spark would search for unmatched records in each part of a union separately, with
    # three joins in place of one (tests/joins/test_plans.py).
    timed = inputs.keep(arrived.unionByName(_open(inputs, window, nothing_like(arrived, "order"))))
    # Not kept with them: what is a number of the declaration is cheaper to write out again than to carry along.
    timed = _with_bounds(inputs, timed, window)
    usable = timed.where(F.col("left").isNotNull() | F.col("right").isNotNull())
    keyed = usable.where(F.col("key").isNotNull())
    late = F.coalesce(F.col("before") >= F.col("close"), F.lit(False))
    kept = keyed.where(~late)
    pairs = _pairs(kept)
    if outer:
        pairs = inputs.keep(pairs)
    rows = [pairs]
    if outer:
        rows += [_without_key(usable, outer), _one_sided(kept, pairs, timed, inputs, join)]
    result = reduce(DataFrame.unionByName, rows)
    return EpochFrames(
        result.select("*", join_values(join.select).alias("value")).drop("left", "right"),
        select_dropped(usable, keyed.where(late), join),
        timed=(inputs.left, inputs.right),
    )


def select_dropped(usable: DataFrame, late: DataFrame, join: StreamStreamJoin) -> DataFrame:
    """Late records, closed ``before`` their ``close``, and those without a key on a side that is not outer."""
    side, value = in_words(F.col("side")), F.coalesce(F.to_json("left"), F.to_json("right"))
    silent = F.col("key").isNull() & ~F.col("side").isin(*OUTER_SIDES[join.how])
    if is_self_join(join):
        # The left copy represents the record: unless the join is inner, it is not dropped.
        silent = silent & (F.col("side") == LEFT)
    closed = past_close(late, side, value, F.col("before"), F.col("close"))
    return closed.unionByName(without_key(usable.where(silent), side, value))


def _slack(side: int, window: JoinWindow) -> int:
    """How long (ms) after its timestamp a record is open."""
    bound = max(window.after if side == LEFT else window.before, 0)
    return bound + window.grace


def _of_side(records: DataFrame, side: int) -> DataFrame:
    own = "left" if side == LEFT else "right"
    return with_record(records, own).select(
        F.lit(side).alias("side"), "partition", "offset", "key", "timestamp", own, "order"
    )


def _with_bounds(inputs: EpochInputs, records: DataFrame, window: JoinWindow) -> DataFrame:
    """Records with the bounds of their windows, and ``close``."""
    bounds = inputs.numbers(records, window_before=window.before, window_after=window.after, window_grace=window.grace)
    bound = F.when(F.col("side") == LEFT, F.col("window_after")).otherwise(F.col("window_before"))
    # A negative bound ends the window before the record itself: used directly, it would make records in order late.
    close = F.col("timestamp") + F.greatest(bound, F.lit(0)) + F.col("window_grace")
    return bounds.select("*", close.alias("close")).drop("window_grace")


def _with_stream_time(inputs: EpochInputs, join: StreamStreamJoin) -> DataFrame:
    """Both inputs' records with stream time ``before`` (NULL: none yet)."""
    records = both_inputs(join, inputs)
    left, right = (_of_side(records[name], side) for name, side in COPIES.items())
    both = left.unionByName(right, allowMissingColumns=True)
    earlier = before_here(Window.partitionBy("partition").orderBy("order"))
    # The left copy of a self-join's record must not make the right one late: the right copies give the time for both.
    moves = F.when(F.col("side") == RIGHT, F.col("timestamp")) if is_self_join(join) else F.col("timestamp")
    before = F.greatest(F.max(moves).over(earlier), stream_time_at_start(inputs))
    return both.select("*", before.alias("before"))


def _open(inputs: EpochInputs, window: JoinWindow, no_order: Column) -> DataFrame:
    """Records of earlier epochs whose windows are open; their ``order`` is NULL: before all of this epoch's."""
    sides = []
    for side in (LEFT, RIGHT):
        records = inputs.open_records("left" if side == LEFT else "right", _slack(side, window))
        usable = records.where(F.col("key").isNotNull() & F.col("value").isNotNull())
        sides.append(_of_side(usable.select("*", no_order.alias("order")), side))
    nothing = F.lit(None).cast("bigint")
    both = sides[0].unionByName(sides[1], allowMissingColumns=True)
    # If declarations are run together, the slack is the longest of them.
    both = _with_bounds(inputs, both, window).where(F.col("close") > stream_time_at_start(inputs))
    return both.drop("window_before", "window_after", "close").select("*", nothing.alias("before"))


def _pairs(kept: DataFrame) -> DataFrame:
    bucket = width(F.col("window_before") + F.col("window_after"))
    earliest, latest = (F.col("timestamp") - F.col("window_before"), F.col("timestamp") + F.col("window_after"))
    lefts = kept.where(F.col("side") == LEFT).select(
        "*", F.explode(list_buckets(earliest, latest, bucket)).alias("bucket")
    )
    rights = kept.where(F.col("side") == RIGHT).select("*", lies_in(F.col("timestamp"), bucket).alias("bucket"))
    # Sorted by the hash first, so that few rows have to be compared (`per_key`).
    place = F.xxhash64("partition", "key", "bucket")
    left = lefts.drop("right", "side").select("*", place.alias("place")).alias("l")
    right = rights.drop("left", "side").select("*", place.alias("place")).alias("r")
    in_window = F.col("r.timestamp").between(
        F.col("l.timestamp") - F.col("l.window_before"),
        F.col("l.timestamp") + F.col("l.window_after"),
    )
    right_is_later = F.col("r.order").isNotNull() & (F.col("l.order").isNull() | (F.col("l.order") < F.col("r.order")))
    still_open = F.when(right_is_later, F.col("r.before") < F.col("l.close")).otherwise(
        F.col("l.before") < F.col("r.close")
    )
    matched = left.join(
        right,
        (F.col("l.place") == F.col("r.place"))
        & (F.col("l.partition") == F.col("r.partition"))
        & (F.col("l.key") == F.col("r.key"))
        & (F.col("l.bucket") == F.col("r.bucket"))
        & in_window
        & (F.col("l.order").isNotNull() | F.col("r.order").isNotNull())
        & F.coalesce(still_open, F.lit(True)),
    )

    def of_trigger(column: str) -> Column:
        return F.when(right_is_later, F.col(f"r.{column}")).otherwise(F.col(f"l.{column}"))

    def of_partner(column: str) -> Column:
        return F.when(right_is_later, F.col(f"l.{column}")).otherwise(F.col(f"r.{column}"))

    trigger_side = F.when(right_is_later, F.lit("right")).otherwise(F.lit("left"))
    return matched.select(
        F.col("l.key").alias("key"),
        F.greatest("l.timestamp", "r.timestamp").alias("timestamp"),
        F.col("l.partition").alias("partition"),
        trigger_of(trigger_side, "l.partition", of_trigger("offset")),
        F.col("l.offset").alias("left_offset"),
        F.col("r.offset").alias("right_offset"),
        _sequence(of_trigger("order"), 0, of_partner("timestamp"), F.lit(0), of_partner("offset")),
        "left",
        "right",
    )


def _without_key(usable: DataFrame, outer: tuple[int, ...]) -> DataFrame:
    alone = usable.where(F.col("key").isNull() & F.col("side").isin(*outer))
    return alone.select(
        "key",
        "timestamp",
        "partition",
        trigger_of(in_words(F.col("side"))),
        *_own_offsets(),
        _sequence(F.col("order"), 0, F.col("timestamp"), F.lit(0), F.col("offset")),
        "left",
        "right",
    )


def _one_sided(
    kept: DataFrame, pairs: DataFrame, timed: DataFrame, inputs: EpochInputs, join: StreamStreamJoin
) -> DataFrame:
    """Unmatched records whose close is reached, each triggered by the first record that reached it."""
    window = join.window
    paired = pairs.select("partition", "left_offset", "right_offset")
    # A pair has the later timestamp of its two records: a pair of an open record is within this slack.
    emitted = inputs.emitted(max(window.before, window.after) + window.grace)
    if emitted is not None:
        both = F.col("left_offset").isNotNull() & F.col("right_offset").isNotNull()
        paired = paired.unionByName(emitted.where(both).select("partition", "left_offset", "right_offset"))
    sides = [
        paired.select("partition", F.lit(side).alias("side"), F.col(column).alias("offset"))
        for side, column in ((LEFT, "left_offset"), (RIGHT, "right_offset"))
    ]
    alone = kept.where(F.col("side").isin(*OUTER_SIDES[join.how])).join(
        reduce(DataFrame.unionByName, sides), ["offset", "partition", "side"], "left_anti"
    )
    moving = timed.where(F.col("side") == RIGHT) if is_self_join(join) else timed
    advances = F.col("before").isNull() | (F.col("timestamp") > F.col("before"))
    steps = moving.where(F.col("order").isNotNull() & advances).select(
        "partition",
        F.col("timestamp").alias("time"),
        F.struct("order", in_words(F.col("side")).alias("side"), "offset").alias("step"),
    )
    closes = alone.select("partition", F.col("close").alias("time"), F.struct("*").alias("waiting"))
    reached = first_to_reach(steps, closes).select("step", "waiting.*")
    return reached.select(
        "key",
        "timestamp",
        "partition",
        trigger_of(F.col("step.side"), offset="step.offset"),
        *_own_offsets(),
        _sequence(F.col("step.order"), 1, F.col("timestamp"), RIGHT - F.col("side"), F.col("offset")),
        "left",
        "right",
    )


def _own_offsets() -> tuple[Column, Column]:
    return (
        F.when(F.col("side") == LEFT, F.col("offset")).alias("left_offset"),
        F.when(F.col("side") == RIGHT, F.col("offset")).alias("right_offset"),
    )


def _sequence(order: Column, phase: int, timestamp: Column, rank: Column, offset: Column) -> Column:
    """Within one trigger: pairs, then closes; each by (timestamp, right before left, arrival)."""
    return F.struct(
        order.alias("order"),
        F.lit(phase).alias("phase"),
        timestamp.alias("timestamp"),
        rank.alias("rank"),
        offset.alias("offset"),
    ).alias("sequence")
