"""Tombstones of truncates: for the rows of the node's own table and the earlier rows of the epoch.

    own table   a, b             the epoch   i c, d a, TRUNCATE, i d, TRUNCATE, i e
    tombstones at the first truncate for b and c, at the second for d; e remains

They take the truncate's place in the order, by their keys, and the time of its commit. Held by
``tests/infra/sources/postgres/test_reading.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.infra.sources.postgres.changes import Emptied
from rivermeet.records.type_text import type_text


def with_emptied(records: DataFrame, own: DataFrame | None, emptied: Sequence[Emptied], table: str) -> DataFrame:
    """An epoch's records with the tombstones of its truncates; ``table`` is the origin of the tombstones.

    ``sequence.file_rank`` of a record is twice the number of truncates before it. ``own`` are the rows of the node's
    own table before the epoch.
    """
    if not emptied:
        return records
    rank = F.col("sequence.file_rank")
    live = F.isnotnull("value").alias("live")
    lives = records.select("key", live, "partition", rank.alias("rank"), "sequence")
    if own is not None:
        first = F.struct(
            F.lit(-1).alias("file_rank"), F.lit(0).cast("bigint").alias("block"), F.lit(0).cast("bigint").alias("row")
        )
        lives = own.select("key", live, "partition", F.lit(0).alias("rank"), first.alias("sequence")).unionByName(lives)
    last = F.max_by(F.struct("live", "partition"), F.col("sequence")).alias("last")
    ended = lives.where(F.col("rank") < 2 * len(emptied)).groupBy("key", "rank").agg(last).where("last.live")
    times = F.create_map(*[F.lit(part) for one in emptied for part in (one.file_rank, one.timestamp)])
    commits = F.create_map(*[F.lit(part) for one in emptied for part in (one.file_rank, one.lsn)])
    origin = F.struct(F.lit(table).alias("file"), commits[F.col("rank") + 1].cast("bigint").alias("line"))
    number = F.row_number().over(Window.partitionBy("rank").orderBy("key")).cast("bigint")
    place = F.struct(
        (F.col("rank") + 1).cast("int").alias("file_rank"), F.lit(0).cast("bigint").alias("block"), number.alias("row")
    )
    kind = type_text(records.schema["value"].dataType)
    tombstones = ended.select(
        "key",
        F.lit(None).cast(kind).alias("value"),
        times[F.col("rank") + 1].cast("bigint").alias("timestamp"),
        F.col("last.partition").alias("partition"),
        origin.alias("origin"),
        place.alias("sequence"),
    )
    return records.unionByName(tombstones)
