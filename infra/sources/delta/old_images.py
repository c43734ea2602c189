"""Old images of updates: the old image of a row is a tombstone if its key has no other row in that version.

| version 5 | records |
|---|---|
| (a, 1) becomes (a, 2) | a: 2. The new image is sufficient |
| (a, 1) becomes (b, 1) | a: a tombstone; b: 1 |
| (a, 1) and (b, 2) swap their keys | a: 2; b: 1 |
| (a, 1) becomes (a, 0), which ``where`` excludes | a: a tombstone |
| (a, 1) becomes (a, "x"), which is not a record | none, and a dead letter: a is unchanged |
| (a, 1) is deleted, and (a, 2) inserted | a: a tombstone; a: 2. Deletes come first |

An old image is never a dead letter: if it is invalid, it was one when it was new. Held by
``tests/infra/sources/delta/test_feed.py``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.infra.sources.delta.rows import KINDS, NEW, OLD


def without_needless(parsed: DataFrame) -> DataFrame:
    """Exclude old images of keys that have a new row in their version; ``parsed`` is as `to_records` gives it."""
    block = F.col("sequence.block")
    kind, version = F.pmod(block, F.lit(KINDS)), F.floor(block / KINDS)
    is_new = (kind == NEW) & ~F.col("excluded")
    of_key = Window.partitionBy("version_", "key")
    there = F.max(is_new).over(of_key)
    marked = parsed.withColumn("version_", version).withColumn("there_", there)
    old = kind == OLD
    return marked.withColumns(
        {
            "excluded": F.col("excluded") | (old & (F.col("there_") | F.isnotnull("reason"))),
            "reason": F.when(~old, F.col("reason")),
        }
    ).drop("version_", "there_")
