"""filter: the records for which a condition is true; a table's row that no longer passes ends with a tombstone.

``where`` sees key and value columns; they are null where key or value is null. A stream's record passes or is left
out. A table's row that passes is forwarded; any other record of its key, a tombstone too, is a tombstone if the key
has a row in the result, and else nothing. ``n > 1``:

    a {n: 1}      nothing
    a {n: 2}      a {n: 2}
    a {n: 1}      a tombstone
    a NULL        nothing: the result has no row of it

A versioned table's records may be older than the row they follow, so that what they end is not known from the order:
each one that does not pass is a tombstone. A table's record without a key is not a row, and is left out.

Source: released Kafka Streams 4.x, ``KStream.filter`` and ``KTable.filter``; a plain table's needless tombstones, which
Kafka leaves out where the old value is sent along, are always left out. Held by
``tests/joins/stateless/test_stateless.py``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.stateless.one_input import build_rows, judge
from rivermeet.joins.values import nothing_like
from rivermeet.pipelines import Filter

READS_ONCE = True


def state(operation: Filter) -> StateRead:
    """Of a plain table, its rows before the epoch."""
    return {"left": "before"} if _is_plain_table(operation) else {}


def compute(operation: Filter, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    judged = judge(inputs.left, operation.where, "__passes")
    if not operation.input.is_table:
        return EpochFrames(build_rows(judged.where("__passes")))
    # A tombstone's key columns alone may satisfy the condition.
    judged = judged.where(F.col("key").isNotNull())
    judged = judged.withColumn("__passes", F.col("__passes") & F.col("value").isNotNull())
    if _is_plain_table(operation):
        judged = _with_an_effect(operation, inputs, judged)
    return EpochFrames(build_rows(judged, value=F.when(F.col("__passes"), F.col("value"))))


def _is_plain_table(operation: Filter) -> bool:
    return operation.input.is_table and getattr(operation.input, "history", None) is None


def _with_an_effect(operation: Filter, inputs: EpochInputs, judged: DataFrame) -> DataFrame:
    """Records that pass, and those that follow one of their key that passed."""
    touched = inputs.broadcast(judged.select("partition", "key").distinct())
    before = inputs.table("left", "before").join(touched, ["partition", "key"], "left_semi")
    before = judge(before, operation.where, "__passes")
    columns = ["key", "value", "timestamp", "partition", "offset", "__passes"]
    no_order = nothing_like(inputs.left, "order").alias("order")
    both = judged.select(*columns, "order").unionByName(before.select(*columns, no_order))
    # The one row before the epoch has no order: it comes first.
    in_order = Window.partitionBy("partition", "key").orderBy(F.col("order").asc_nulls_first())
    followed = both.select("*", F.coalesce(F.lag("__passes").over(in_order), F.lit(False)).alias("__passed"))
    return followed.where(F.col("order").isNotNull() & (F.col("__passes") | F.col("__passed")))
