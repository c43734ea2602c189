"""From the files of a source to records and dead letters, with one parse of every file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from infra.csv_files import csv_rows
from infra.file_discovery import FileState
from infra.json_files import json_rows
from infra.parquet_files import parquet_rows
from infra.row_to_record import to_records
from pipelines import Source


@dataclass(frozen=True)
class SourceFrames:
    """What the files hold. Each row is a record, dead, or excluded by the source's ``where``.

    Attributes
    ----------
    parsed
        ``excluded``, ``reason`` (null but for dead rows) and all columns of `records` and `dead`.
        Persist it, as ``SourceFrames(frames.parsed.persist())``, to count and write without
        parsing twice.
    """

    parsed: DataFrame

    @property
    def records(self) -> DataFrame:
        """Columns ``key value timestamp partition`` and ``sequence``, the order of arrival."""
        good = self.parsed.where(F.isnull("reason") & ~F.col("excluded"))
        return good.select("key", "value", "timestamp", "partition", "sequence")

    @property
    def dead(self) -> DataFrame:
        """Columns ``file``, ``line`` (null where not known), ``text`` and ``reason``."""
        return self.parsed.where(F.isnotnull("reason")).select("file", "line", "text", "reason")


def partition_of(key: Column, partitions: int) -> Column:
    """Give the partition of a key struct; the names of its columns do not matter."""
    return F.pmod(F.xxhash64(key), F.lit(partitions)).cast("int")


def read(spark: SparkSession, source: Source, partitions: int, files: Sequence[FileState]) -> SourceFrames:
    """Read records and dead letters of these files, in the order of their paths.

    A quoted CSV field may go over up to 1000 lines; an opening quote that nothing closes makes its
    own line dead, and no other. Lines end with LF, CRLF or CR. Blank lines are no rows. A line
    that is not UTF-8 is dead.

    Parameters
    ----------
    spark
        Session with time zone UTC.
    source
        What the files' rows mean. Its expressions see only rows whose declared columns parsed.
    partitions
        How many partitions keys are hashed into.
    files
        The files to read; all of them, and no other.

    Raises
    ------
    ValueError
        A file cannot be read or lacks a declared column, or an expression of the source is wrong.
    """
    zone = spark.conf.get("spark.sql.session.timeZone")
    if zone not in ("UTC", "Etc/UTC", "Z"):
        raise ValueError(f"the Spark session's time zone is {zone}; set spark.sql.session.timeZone to UTC")
    states = sorted(files, key=lambda state: state.path)
    rows = _rows(spark, source, states) if states else None
    if rows is None:
        rows = _no_rows(spark, source.files.schema)
    parsed = to_records(rows, source)
    return SourceFrames(parsed.withColumn("partition", partition_of(F.col("key"), partitions)))


def _rows(spark: SparkSession, source: Source, states: Sequence[FileState]) -> DataFrame | None:
    readers = {"csv": csv_rows, "json": json_rows, "parquet": parquet_rows}
    return readers[source.files.format](spark, source.files, states)


def _no_rows(spark: SparkSession, schema: Mapping[str, str]) -> DataFrame:
    typed = ", ".join(f"t{i}: {kind}" for i, kind in enumerate(schema.values()))
    place = "file_rank INT, file STRING, member STRING, block BIGINT, row BIGINT, line BIGINT"
    return spark.createDataFrame([], f"{place}, text STRING, typed STRUCT<{typed}>, malformed STRING")
