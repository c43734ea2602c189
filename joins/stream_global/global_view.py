"""global table ⋈ global table: a view, resolved when it is read; nothing of it is stored and nothing triggers.

``key`` maps a left row to a key of the right table. The view has the left table's keys, and the newest of both
timestamps:

    left  c1 {city: b}      right  b Berlin        c1 Berlin
    left  c2 {city: x}                             inner: no row      left: c2 null

Source: KIP-99, joins between global tables. Held by ``tests/joins/stream_global/test_global_view.py``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.values import join_values, key_type, with_mapped_key, with_record
from rivermeet.pipelines import GlobalGlobalJoin


def resolve(join: GlobalGlobalJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    """Rows of the view: key, value, timestamp (ms), partition and offset of the left rows."""
    rows = with_mapped_key(with_record(left, "left"), "left", join.key, key_type(right), "mapped").alias("l")
    found = with_record(right, "right").select("key", "right", "timestamp").alias("r")
    matched = rows.join(found, F.col("l.mapped") == F.col("r.key"), "inner" if join.how == "inner" else "left")
    return matched.select(
        F.col("l.key").alias("key"),
        F.greatest("l.timestamp", "r.timestamp").alias("timestamp"),
        "l.partition",
        "l.offset",
        "left",
        "right",
    ).select("key", join_values(join.select).alias("value"), "timestamp", "partition", "offset")
