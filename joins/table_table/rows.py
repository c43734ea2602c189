"""Rows that changes of two tables cause, as far as the profiles agree.

A key has a row where both sides have one (inner), the left one (left), or either (outer). Which change without a row
emits a tombstone, and with which timestamp, is the profiles' to say.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs
from rivermeet.joins.order import LEFT, RIGHT, in_words
from rivermeet.joins.provenance import record_at, trigger_of
from rivermeet.joins.table_table.changes import SIDES, input_caches
from rivermeet.joins.tables.cache import net_changes, select_emitted_before
from rivermeet.joins.values import join_values
from rivermeet.pipelines import TableTableJoin


def is_left() -> Column:
    """Whether a change is one of the left side."""
    return F.col("side") == LEFT


def is_present(side: str, moment: str) -> Column:
    """Whether a side has a record under the key: ``was`` before the change, ``now`` after it."""
    return F.col(f"{side}_{moment}.{side}").isNotNull()


def is_other_present() -> Column:
    """Whether the other side has a record."""
    return F.when(is_left(), is_present("right", "now")).otherwise(is_present("left", "now"))


def was_own_present() -> Column:
    """Whether the change's own side had a record before it."""
    return F.when(is_left(), is_present("left", "was")).otherwise(is_present("right", "was"))


def had_row(join: TableTableJoin, moment: str = "was") -> Column:
    """Whether the key has a row at a moment."""
    left, right = is_present("left", moment), is_present("right", moment)
    return {"inner": left & right, "left": left, "outer": left | right}[join.how]


def later_timestamp() -> Column:
    """The later of the change's timestamp and the other side's, where that has a record (ms)."""
    other = F.when(is_left(), F.col("right_now.timestamp")).otherwise(F.col("left_now.timestamp"))
    return F.greatest("timestamp", F.when(is_other_present(), other))


def build_rows(join: TableTableJoin, changes: DataFrame, emits: Column, timestamp: Column) -> DataFrame:
    """Rows that changes cause: all live ones, and tombstones where ``emits`` is true.

    Returns
    -------
    DataFrame
        ``key``, ``timestamp``, ``partition``, ``trigger`` STRUCT<side, partition, offset>, ``sequence`` STRUCT<commit,
        phase, order>, ``left`` and ``right`` (the sides' records), ``live`` (false: a tombstone), ``was`` (whether the
        key had a row before), ``phase`` (0: waits for no commit, 1: left, 2: right), ``commit``.
    """
    cached = input_caches(join) if join.semantics != "3.1" else ()
    phase = F.when(is_left(), 1 if LEFT in cached else 0).otherwise(2 if RIGHT in cached else 0)
    judged = changes.select("*", had_row(join, "now").alias("live"), had_row(join).alias("was"), phase.alias("phase"))
    return judged.where(F.col("live") | emits).select(
        "key",
        timestamp.alias("timestamp"),
        "partition",
        trigger_of(in_words(F.col("side"))),
        # Of one commit: what does not wait for it, then the left changes, then the right ones.
        F.struct("commit", "phase", "order").alias("sequence"),
        F.when(F.col("live"), F.col("left_now.left")).alias("left"),
        F.when(F.col("live"), F.col("right_now.right")).alias("right"),
        "live",
        "was",
        "phase",
        "commit",
    )


def flush_caches(join: TableTableJoin, inputs: EpochInputs, rows: DataFrame) -> DataFrame:
    """Rows of cached inputs as their commits emit them: triggered by the commit's last record.

    A ``materialized`` result is cached as well: of each key and commit its net change.
    """
    if join.materialized:
        rows = inputs.keep(rows)
        rows = net_changes(rows, select_emitted_before(inputs.emitted(None), rows))
    records = [inputs.records[side].select("commit", "order", record_at(side).alias("r")) for _, side in SIDES]
    last = F.max_by("r", "order").alias("last")
    ends = records[0].unionByName(records[1]).groupBy("r.partition", "commit").agg(last)
    waited = F.lit(True) if join.materialized else F.col("phase") > 0
    trigger = F.when(waited, F.col("last")).otherwise(F.col("trigger"))
    return rows.join(ends, ["partition", "commit"], "left").withColumn("trigger", trigger).drop("last")


def finish(join: TableTableJoin, rows: DataFrame) -> EpochFrames:
    """Columns of `EpochFrames`, the value from both records."""
    value = F.when(F.col("live"), join_values(join.select))
    return EpochFrames(rows.select("*", value.alias("value")).drop("left", "right", "live", "was", "phase", "commit"))
