"""Lines of files that an executor reads from start to end: zip members, and fields with line breaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.sources.files.landing import lines
from rivermeet.infra.sources.files.line_formats import Ranks, add_ranks
from rivermeet.infra.sources.places import LINE_COLUMNS, spark_path

if TYPE_CHECKING:
    import pyarrow as pa

# Executors need not have this package.
cloudpickle.register_pickle_by_value(lines)


def sequential_lines(spark: SparkSession, ranks: Ranks, delimiter: str, first_only: bool = False) -> DataFrame:
    """Return `LINE_COLUMNS` and ``problem``; a quoted field may contain line breaks, and keeps them.

    ``first_only`` gives the first line of each file or member, and reads it to the end to verify
    it; ``problem`` says why a file is damaged. Otherwise a damaged file fails the job.
    Complete files are kept in memory, so they must be under 2 GB.
    """
    walked = lines.walk_files

    def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return walked(batches, delimiter, first_only)

    scan = spark.read.format("binaryFile").load([spark_path(path) for path in ranks])
    read = scan.select(F.col("_metadata.file_path").alias("uri"), "content").mapInArrow(
        walk,  # pyright: ignore[reportArgumentType]
        "uri STRING, member STRING, block BIGINT, row BIGINT, line BIGINT, text STRING, problem STRING",
    )
    return add_ranks(read, scan.inputFiles(), ranks).select(*LINE_COLUMNS, "problem")
