"""Operations that do not join two inputs: rows are compared; causes are known as far as our own rows show them.

| cause | rule, the first that holds |
|---|---|
| unread | the record that triggers our row was not read by the application |
| lost_row | ours has a row, the application none |
| repeated | of a stream: the application has the row, and more often |
| stale_row | of a table: the application's last row is an earlier one of ours |
| unknown_value | ours never has it |

Held by ``tests/joins/shadow/test_rows.py``.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from rivermeet.joins.shadow.answers import UNREAD, Answers, Compared
from rivermeet.joins.shadow.folded import fold_answers, totals
from rivermeet.joins.shadow.multiset import count_rows, stream_totals


def compare_table(answers: Answers) -> Compared:
    """Compare the tables that both answers fold to."""
    by_key = answers.keep(fold_answers(answers))
    bad = answers.keep(by_key.where(~F.col("equal")))
    earlier = answers.ours.select("key", "value").distinct().withColumn("was_ours", F.lit(True))
    wanted = bad.where(F.col("theirs.value").isNotNull()).select("key", F.col("theirs.value").alias("value"))
    found = bad.join(wanted.join(earlier, ["key", "value"]).select("key", "was_ours").distinct(), "key", "left")
    ours, theirs = F.col("ours.value").isNotNull(), F.col("theirs.value").isNotNull()
    both = F.when(F.col("was_ours"), "stale").otherwise("other")
    cause = (
        F.when(answers.is_unread(), UNREAD)
        .when(~theirs, "lost_row")
        .when(F.col("was_ours"), "stale_row")
        .otherwise("unknown_value")
    )
    kind = F.when(ours & ~theirs, "missing").when(~ours & theirs, "extra").otherwise(both)
    return Compared(
        found.withColumns({"kind": kind, "cause": cause, "copies": F.lit(1).cast("bigint")}), totals(by_key)
    )


def compare_stream(answers: Answers) -> Compared:
    """Compare the rows of both answers, each as often as it came."""
    by_row = answers.keep(count_rows(answers))
    cause = (
        F.when(answers.is_unread(), UNREAD)
        .when(F.col("missing"), "lost_row")
        .when(F.col("ours").isNotNull(), "repeated")
        .otherwise("unknown_value")
    )
    kind = F.when(F.col("missing"), "missing").otherwise("extra")
    bad = by_row.where("copies > 0").withColumns({"kind": kind, "cause": cause})
    return Compared(bad, stream_totals(answers, by_row))
