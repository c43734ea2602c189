"""Rows of Parquet files: columns by name, each file with its own types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from infra.declared_types import as_declared
from infra.file_discovery import FileState, spark_path
from infra.line_formats import Ranks, ranked
from pipelines import Files


def parquet_rows(spark: SparkSession, files: Files, states: Sequence[FileState]) -> DataFrame:
    """Give what `as_declared` gives, with the row as JSON for ``text``."""
    groups: dict[str, dict[str, int]] = defaultdict(dict)
    for rank, state in enumerate(states):
        groups[_layout(spark, state.path)][state.path] = rank
    return reduce(DataFrame.unionAll, [_rows(spark, files, group) for group in groups.values()])


def _layout(spark: SparkSession, path: str) -> str:
    """Give what files must share to be scanned together: one's INT is not read as another's BIGINT."""
    if path.startswith("/"):
        import pyarrow.parquet as pq

        with open(path, "rb") as file:
            return str(pq.read_schema(file).remove_metadata())
    return spark.read.parquet(spark_path(path)).schema.json()


def _rows(spark: SparkSession, files: Files, ranks: Ranks) -> DataFrame:
    scan = spark.read.parquet(*[spark_path(path) for path in ranks])
    for column in files.schema:
        if column not in scan.columns:
            raise ValueError(
                f"file {min(ranks)} has no column '{column}' (it has {', '.join(scan.columns)}); "
                "correct the file, or the schema of the source"
            )
    row = F.struct(*[F.col(f"`{name.replace('`', '``')}`") for name in scan.columns])
    raw = F.struct(*[row.getField(c).alias(f"r{i}") for i, c in enumerate(files.schema)])
    rows = scan.select(
        F.col("_metadata.file_path").alias("uri"),
        F.lit(None).cast("string").alias("member"),
        F.lit(0).cast("bigint").alias("block"),
        F.col("_metadata.row_index").alias("row"),
        (F.col("_metadata.row_index") + 1).alias("line"),
        F.to_json(row).alias("text"),
        raw.alias("raw"),
        F.lit(None).cast("string").alias("malformed"),
    )
    return as_declared(ranked(rows, scan.inputFiles(), ranks), files.schema)
