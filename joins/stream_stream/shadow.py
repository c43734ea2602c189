"""Joins of two streams: pairs that were lost, rows without a partner that are false, and what another order explains.

A side's window store forgets by that side's own time: once it has had a record at T, a look-up finds nothing at or
before T - R, R being before + after + grace (``joins/stream_stream/window_store.py``). So whether a pair meets depends
on how far the one topic ran ahead of the other. In the order of our epochs it met; in the application's it did not:

    window 10/10     left  k A @0, x B @100      right  k a @5
    ours             A-a                         theirs, which read all of left first: nothing, or A-null and -a

| missing | rule, the first that holds |
|---|---|
| unread | the record that triggers our row was not read by the application |
| late_record | a record of the row is R or more behind the newest one before it in its own topic |
| ran_ahead | a pair, and the topic of one record goes on to its timestamp + R or more: read ahead, it is forgotten |
| kept_longer | a row without a partner, and the application has a pair of the record |
| still_waiting | a row without a partner, not older than those of its side and partition that both have |
| lost_row | no order of the topics leaves it out |

| extra | rule, the first that holds |
|---|---|
| unread | the record that triggers the pair of ours was not read by the application |
| repeated | the application has our row, and more often |
| unknown_value | no two records within the window, and no one record, give the application's value |
| late_record | as above |
| kept_longer | a pair within the window, which another order of the topics finds |
| false_one_sided | a row without a partner, and ours has a pair of the record |
| released_earlier | a row without a partner, and the window has passed by the newest record of both topics |
| unknown_value | the window is open still |

With the old windows (``eager=True``) a row without a partner depends on the order alone: it is `kept_longer` where it
is missing, and `released_earlier` where it is extra. Held by
``tests/joins/shadow/test_stream_stream.py`` and ``tests/assets/shadow/test_real_application.py``.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.operator import Side
from rivermeet.joins.order import before_here
from rivermeet.joins.shadow.answers import RECORD, UNREAD, Answers, Compared
from rivermeet.joins.shadow.compare import FALSE_ONE_SIDED, Cause
from rivermeet.joins.shadow.folded import count_rows, count_stream_totals, same_row
from rivermeet.joins.stream_stream.profile_3_1 import OUTER_SIDES
from rivermeet.joins.stream_stream.self_join import COPIES
from rivermeet.joins.stream_stream.time_buckets import lies_in, list_buckets, width
from rivermeet.joins.values import join_values, with_record
from rivermeet.pipelines import StreamStreamJoin

CAUSES = (
    Cause("ran_ahead", "one topic ran ahead, and the pair's other record was no longer in its window's store"),
    Cause("late_record", "a record of the row came after its window and grace by its own topic's time", True),
    FALSE_ONE_SIDED,
    Cause("kept_longer", "a pair within its window, which our order of the topics finds too late", True),
    Cause("still_waiting", "a row without a partner that waits for a later record to release it", True),
    Cause("released_earlier", "a row without a partner whose window has closed, which ours has not released yet", True),
)
SIDES = ("left", "right")
_ROW = ("key", "value", "timestamp")


def compare(join: StreamStreamJoin, answers: Answers) -> Compared:
    """Compare the rows of both answers, each as often as it came."""
    by_row = answers.keep(count_rows(answers))
    bad = answers.keep(by_row.where("copies > 0"))
    sides = {side: answers.keep(_time_side(join, answers, side)) for side in SIDES}
    made = answers.keep(_find_parts(join, bad.where("NOT missing"), sides))
    missing = _classify_missing(join, answers, bad.where("missing"), by_row, made, sides)
    extra = _extra(join, answers, bad.where("NOT missing"), made, sides)
    return Compared(missing.unionByName(extra, allowMissingColumns=True), count_stream_totals(answers, by_row))


def _time_side(join: StreamStreamJoin, answers: Answers, side: str) -> DataFrame:
    """A side's records: ``late`` and ``can_be_forgotten`` by its own topic's time, ``closed`` by that of both."""
    records = answers.left if side == "left" else answers.right
    assert answers.left is not None and answers.right is not None and records is not None
    window = join.window
    retention = window.before + window.after + window.grace
    reach = window.after if side == "left" else window.before
    stored = F.when(F.col("key").isNotNull() & F.col("value").isNotNull(), F.col("timestamp"))
    times = [one.groupBy("partition").agg(F.max("timestamp").alias("newest")) for one in (answers.left, answers.right)]
    both = times[0].unionByName(times[1]).groupBy("partition").agg(F.max("newest").alias("newest"))
    own = records.groupBy("partition").agg(F.max(stored).alias("topic_time"))
    so_far = F.max(stored).over(before_here(Window.partitionBy("partition").orderBy("offset")))
    timed = with_record(records.withColumn("before_it", so_far), side).join(both, "partition").join(own, "partition")
    return timed.select(
        "key",
        "partition",
        "offset",
        "timestamp",
        side,
        F.struct(*RECORD).alias("record"),
        F.coalesce(F.col("before_it") - retention >= F.col("timestamp"), F.lit(False)).alias("late"),
        F.coalesce(F.col("topic_time") - retention >= F.col("timestamp"), F.lit(False)).alias("can_be_forgotten"),
        (F.col("newest") > F.col("timestamp") + reach).alias("closed"),
    )


def _is_pair() -> Column:
    return F.col("left_offset").isNotNull() & F.col("right_offset").isNotNull()


def _lone() -> dict[str, Column]:
    """``lone_side`` and ``lone_offset`` of the record that a row without a partner is of; NULL of a pair."""
    side = F.when(F.col("left_offset").isNotNull(), "left").when(F.col("right_offset").isNotNull(), "right")
    return {
        "lone_side": F.when(~_is_pair(), side),
        "lone_offset": F.when(~_is_pair(), F.coalesce("left_offset", "right_offset")),
    }


def _classify_missing(
    join: StreamStreamJoin,
    answers: Answers,
    missing: DataFrame,
    by_row: DataFrame,
    made: DataFrame,
    sides: dict[str, DataFrame],
) -> DataFrame:
    placed = missing.select("*", F.col("ours.partition").alias("at"), "ours.left_offset", "ours.right_offset")
    placed = _with_records(placed.withColumns(_lone()), sides)
    theirs = _records_of_pairs(made, F.lit(True).alias("paired"))
    placed = placed.join(theirs, ["at", "lone_side", "lone_offset"], "left")
    placed = placed.join(_find_released(by_row), ["at", "lone_side"], "left")
    waits = F.col("released").isNull() | (F.col("timestamp") >= F.col("released"))
    cause = (
        F.when(answers.is_unread(), UNREAD)
        .when(_either("late"), "late_record")
        .when(_is_pair() & _either("can_be_forgotten"), "ran_ahead")
        .when(_is_pair(), "lost_row")
        .when(F.col("paired") | F.lit(join.eager), "kept_longer")
        .when(waits, "still_waiting")
        .otherwise("lost_row")
    )
    return _as_differences(placed, "missing", cause)


def _extra(
    join: StreamStreamJoin, answers: Answers, extra: DataFrame, made: DataFrame, sides: dict[str, DataFrame]
) -> DataFrame:
    placed = extra.alias("e").join(made.alias("o"), same_row("e", "o"), "left")
    placed = placed.select("e.*", "o.at", "o.left_offset", "o.right_offset").withColumns(_lone())
    pair = F.struct("left_offset", "right_offset", "trigger")
    of_ours = answers.ours.withColumn("at", F.col("partition"))
    ours = _records_of_pairs(of_ours, F.max_by(pair, "offset").alias("pair"))
    placed = placed.join(ours, ["at", "lone_side", "lone_offset"], "left")
    placed = placed.withColumns(
        {
            "pairs": _is_pair(),
            "unknown": F.col("left_offset").isNull() & F.col("right_offset").isNull(),
            # The partner in our output is shown next to a record that has none in theirs.
            "left_offset": F.coalesce("left_offset", "pair.left_offset"),
            "right_offset": F.coalesce("right_offset", "pair.right_offset"),
        }
    )
    placed = _with_records(placed, sides)
    own = [F.when(F.col("lone_side") == side, F.col(f"{side}_of.closed")) for side in SIDES]
    cause = (
        F.when(F.col("pair").isNotNull() & answers.is_unread("pair.trigger"), UNREAD)
        .when(F.col("ours").isNotNull(), "repeated")
        .when(F.col("unknown"), "unknown_value")
        .when(_either("late"), "late_record")
        .when(F.col("pairs"), "kept_longer")
        .when(F.lit(join.eager), "released_earlier")
        .when(F.col("pair").isNotNull(), "false_one_sided")
        .when(F.coalesce(*own), "released_earlier")
        .otherwise("unknown_value")
    )
    return _as_differences(placed, "extra", cause)


def _as_differences(placed: DataFrame, kind: str, cause: Column) -> DataFrame:
    return placed.select(
        F.lit(kind).alias("kind"),
        cause.alias("cause"),
        "key",
        "copies",
        "ours",
        "theirs",
        *(F.col(f"{side}_of.record").alias(side) for side in SIDES),
    )


def _with_records(frame: DataFrame, sides: dict[str, DataFrame]) -> DataFrame:
    """Add STRUCTs ``left_of``, ``right_of``: the records at ``left_offset``, ``right_offset`` of partition ``at``."""
    for side in SIDES:
        facts = sides[side].select(
            F.col("partition").alias("at"),
            F.col("offset").alias(f"{side}_offset"),
            F.struct("record", "late", "can_be_forgotten", "closed").alias(f"{side}_of"),
        )
        frame = frame.join(facts, ["at", f"{side}_offset"], "left")
    return frame


def _either(field: str) -> Column:
    return F.coalesce(F.col(f"left_of.{field}"), F.lit(False)) | F.coalesce(F.col(f"right_of.{field}"), F.lit(False))


def _records_of_pairs(rows: DataFrame, what: Column) -> DataFrame:
    """``what`` there is of each record that has a pair among the rows: by ``at``, ``lone_side``, ``lone_offset``."""
    pairs = rows.where(_is_pair())
    found = [
        pairs.groupBy("at", F.lit(side).alias("lone_side"), F.col(f"{side}_offset").alias("lone_offset")).agg(what)
        for side in SIDES
    ]
    return found[0].unionByName(found[1])


def _find_released(by_row: DataFrame) -> DataFrame:
    """By partition and side the newest row without a partner that both answers have: ``released`` (ms)."""
    both = by_row.where(F.col("ours").isNotNull() & F.col("theirs").isNotNull())
    placed = both.select("timestamp", F.col("ours.partition").alias("at"), "ours.left_offset", "ours.right_offset")
    lone = placed.withColumns(_lone()).where(F.col("lone_side").isNotNull())
    return lone.groupBy("at", "lone_side").agg(F.max("timestamp").alias("released"))


def _find_parts(join: StreamStreamJoin, extra: DataFrame, sides: dict[str, DataFrame]) -> DataFrame:
    """By row of the application (key, value, timestamp) the newest records that give it.

    A pair has the later timestamp of both, so one of its records has the row's.
    """
    wanted = extra.select("key", "value", "timestamp").distinct()
    times = wanted.select("key", "timestamp").distinct()
    window, time = join.window, F.col("timestamp")
    named = {
        side: records.where(F.col(side).isNotNull()).select(
            "key", "partition", "timestamp", side, F.col("offset").alias(f"{side}_offset")
        )
        for side, records in sides.items()
    }
    found: list[DataFrame] = []
    reaches: tuple[tuple[Side, Side, int, int], ...] = (
        ("left", "right", window.before, window.after),
        ("right", "left", window.after, window.before),
    )
    for side, other, behind, ahead in reaches:
        same = F.col("x.key").eqNullSafe(F.col("t.key")) & (F.col("x.timestamp") == F.col("t.timestamp"))
        own = named[side].alias("x").join(times.alias("t"), same, "left_semi")
        bucket = width(F.lit(max(behind, 0) + max(ahead, 0)))
        reached = own.withColumn("bucket", F.explode(list_buckets(time - max(behind, 0), time + max(ahead, 0), bucket)))
        others = named[other].withColumnRenamed("timestamp", "at_time")
        others = others.withColumn("bucket", lies_in(F.col("at_time"), bucket))
        # The other record is in the window, and is not the later one.
        apart = F.col("at_time") - time
        met = reached.join(others, ["key", "partition", "bucket"]).where(apart.between(-behind, ahead) & (apart <= 0))
        found.append(met.drop("bucket", "at_time"))
        if COPIES[side] in OUTER_SIDES[join.how]:
            found.append(own)
    made = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), found)
    made = made.withColumn("value", join_values(join.select))
    newest = F.struct(*(F.coalesce(f"m.{side}_offset", F.lit(-1)).alias(side) for side in SIDES))
    place = F.struct(F.col("m.partition").alias("at"), "m.left_offset", "m.right_offset")
    matched = wanted.alias("w").join(made.alias("m"), same_row("w", "m"))
    rows = matched.groupBy(*(F.col(f"w.{column}").alias(column) for column in _ROW))
    return rows.agg(F.max_by(place, newest).alias("of")).select(*_ROW, "of.*")
