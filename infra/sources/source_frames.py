"""The parsed rows of a source: records and dead letters, in one frame."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F


@dataclass(frozen=True)
class SourceFrames:
    """The parsed rows: each is a record, dead, or excluded by the source's ``where``.

    ``parsed`` has ``excluded``, ``reason`` (null except for dead rows) and all columns of `records` and `dead`. Persist
    it to count and write without parsing twice. ``count`` is None if it is unknown before they are computed.
    """

    parsed: DataFrame
    count: int | None = None

    @property
    def records(self) -> DataFrame:
        """Columns ``key value timestamp partition``, ``origin`` and ``sequence``, the order of arrival.

        ``origin`` STRUCT<file, line> is where a record came from, as in a dead letter: a file, and the line
        if it is known; or TOPIC/PARTITION and the offset.
        """
        good = self.parsed.where(F.isnull("reason") & ~F.col("excluded"))
        origin = F.struct("file", "line").alias("origin")
        return good.select("key", "value", "timestamp", "partition", origin, "sequence")

    @property
    def dead(self) -> DataFrame:
        """Dead letters: ``file``, ``line`` (null where not known), ``position``, ``text``, ``header`` and so on.

        ``position`` is the letter's place among those of its file, from 1; it is 0, and ``text`` null, if the file
        itself could not be read.
        """
        place = F.row_number().over(Window.partitionBy("file").orderBy("sequence"))
        dead = self.parsed.where(F.isnotnull("reason"))
        numbered = dead.withColumn("position", F.when(F.isnull("text"), 0).otherwise(place))
        return numbered.select("file", "line", "position", "text", "header", "modified_ms", "reason")


def partition_of(key: Column, partitions: int) -> Column:
    """The partition of a key struct; the names of its columns do not matter."""
    return F.pmod(F.xxhash64(key), F.lit(partitions)).cast("int")
