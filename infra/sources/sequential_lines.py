"""Lines of files that an executor walks from start to end: zip members, and fields that hold line breaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.sources.discovery import spark_path
from rivermeet.infra.sources.landing import lines
from rivermeet.infra.sources.line_formats import LINE_COLUMNS, Ranks, ranked

if TYPE_CHECKING:
    import pyarrow as pa

# Executors need not have this package.
cloudpickle.register_pickle_by_value(lines)


def sequential_lines(spark: SparkSession, ranks: Ranks, delimiter: str, first_only: bool = False) -> DataFrame:
    """Give `LINE_COLUMNS` and ``problem``; a quoted field may hold line breaks, and keeps them as they are.

    ``first_only`` gives the first line of each file or member, and reads it to the end to know that
    it is sound; ``problem`` says there why a file is not. Without it an unsound file fails the job.
    Whole files are held in memory, so they must be under 2 GB.
    """
    walked = lines.walked

    def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return walked(batches, delimiter, first_only)

    scan = spark.read.format("binaryFile").load([spark_path(path) for path in ranks])
    read = scan.select(F.col("_metadata.file_path").alias("uri"), "content").mapInArrow(
        walk,  # pyright: ignore[reportArgumentType]
        "uri STRING, member STRING, block BIGINT, row BIGINT, line BIGINT, text STRING, problem STRING",
    )
    return ranked(read, scan.inputFiles(), ranks).select(*LINE_COLUMNS, "problem")
