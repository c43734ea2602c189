"""Tables are compared by the last row of each key; what came before, and in which order, makes no difference.

    ours      a 1, a 2, b 1, b null        theirs    a 2, b 1        b: extra
    ours      a 1, a 2                     theirs    a 2             equal; came otherwise

A key lives in one partition, so that its highest offset is its last row. Values are compared, and no timestamps: a
foreign-key join's depend on which side came last.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.shadow.answers import Answers, both_sides, history


def fold_answers(answers: Answers) -> DataFrame:
    """One row per key of either answer.

    Returns
    -------
    DataFrame
        ``key``; ``ours`` and ``theirs``, STRUCT<partition, offset, timestamp, value, trigger> of the last row, NULL
        where there is none; ``equal``; ``otherwise``, whether other rows came before it, or in another order.
    """
    mine = F.col("mine")
    last = F.struct("partition", "offset", "timestamp", "value", "trigger")
    by_key = (
        both_sides(answers)
        .where(F.col("key").isNotNull())
        .groupBy("key")
        .agg(
            F.max_by(last, F.when(mine, F.col("offset"))).alias("ours"),
            F.max_by(last, F.when(~mine, F.col("offset"))).alias("theirs"),
            F.count_if(mine).alias("own_rows"),
            F.count_if(~mine).alias("their_rows"),
            history(mine, "value").alias("own_history"),
            history(~mine, "value").alias("their_history"),
        )
    )
    # Of a side without rows, max_by gives a row of the other one.
    named = by_key.withColumns(
        {
            "ours": F.when(F.col("own_rows") > 0, F.col("ours")),
            "theirs": F.when(F.col("their_rows") > 0, F.col("theirs")),
        }
    )
    return named.select(
        "key",
        "ours",
        "theirs",
        F.col("ours.value").eqNullSafe(F.col("theirs.value")).alias("equal"),
        (F.col("own_history") != F.col("their_history")).alias("otherwise"),
    )


def totals(by_key: DataFrame) -> DataFrame:
    """One row: ``keys``, ``equal``, and ``otherwise``, those of the equal ones that came otherwise."""
    equal = F.col("equal")
    return by_key.agg(
        F.count("*").alias("keys"),
        F.count_if(equal).alias("equal"),
        F.count_if(equal & F.col("otherwise")).alias("otherwise"),
    )
