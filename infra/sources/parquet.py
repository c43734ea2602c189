"""Rows of Parquet files: columns by name, each file with its own types."""

from __future__ import annotations

import json
from collections import defaultdict

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from infra.sources.declared_types import as_declared
from infra.sources.discovery import spark_path
from infra.sources.line_formats import LINE_COLUMNS, Place, Problems, Ranks, no_column, ranked
from pipelines import Files
from pipelines.source import quoted

CLOCKS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""To the microsecond: a row is read again from its text, and JSON's own format cuts at the millisecond."""


def parquet_rows(spark: SparkSession, files: Files, ranks: Ranks) -> tuple[list[DataFrame], Problems]:
    """Give what `as_declared` gives, by layout, with rows as JSON for ``text``, and the files that cannot be read."""
    layouts: dict[str, dict[str, Place]] = defaultdict(dict)
    problems, groups = Problems(), []
    for path, place in ranks.items():
        try:
            layouts[_layout(spark, path)][path] = place
        except (OSError, ValueError, PySparkException) as error:
            problems[path] = f"the file is no Parquet file that can be read: {str(error).splitlines()[0]}"
    for group in layouts.values():
        rows = _rows(spark, files, group)
        if isinstance(rows, str):
            problems |= dict.fromkeys(group, rows)
        else:
            groups.append(rows)
    return groups, problems


def _layout(spark: SparkSession, path: str) -> str:
    """Give what files must share to be scanned together: one's INT is not read as another's BIGINT."""
    if path.startswith("/"):
        import pyarrow.parquet as pq

        with open(path, "rb") as file:
            return str(pq.read_schema(file).remove_metadata())
    return spark.read.parquet(spark_path(path)).schema.json()


def _rows(spark: SparkSession, files: Files, ranks: Ranks) -> DataFrame | str:
    """Rows of files of one layout, or why it cannot be read."""
    try:
        scan = spark.read.parquet(*[spark_path(path) for path in ranks])
        for column in files.schema:
            if column not in scan.columns:
                return no_column(column, scan.columns)
        row = F.struct(*[F.col(quoted(name)) for name in scan.columns])
        raw = F.struct(*[row.getField(c).alias(f"r{i}") for i, c in enumerate(files.schema)])
        rows = scan.select(
            F.col("_metadata.file_path").alias("uri"),
            F.lit(None).cast("string").alias("member"),
            F.lit(0).cast("bigint").alias("block"),
            F.col("_metadata.row_index").alias("row"),
            (F.col("_metadata.row_index") + 1).alias("line"),
            F.to_json(row, CLOCKS).alias("text"),
            raw.alias("raw"),
            F.lit(None).cast("string").alias("malformed"),
        )
        named = ranked(rows, scan.inputFiles(), ranks).withColumn("header", F.lit(scan.schema.json()))
        declared = as_declared(named, files.schema)
        assert declared.schema  # asks Spark whether the casts are possible at all
        return declared
    except ParseException:
        raise  # a type that the source declares is none: no file can be blamed
    except AnalysisException as error:
        return f"the file's columns cannot be read as declared: {str(error).splitlines()[0]}"


def parquet_parsed(letters: DataFrame, header: str, files: Files) -> DataFrame | str:
    """Give what `as_declared` gives of rows kept as JSON and the schema of their file, or why it cannot be read."""
    schema = T.StructType.fromJson(json.loads(header))
    for column in files.schema:
        if column not in schema.names:
            return no_column(column, schema.names)
    parsed = letters.withColumn("p", F.from_json("text", schema, CLOCKS))
    raw = F.struct(*[F.col("p").getField(c).alias(f"r{i}") for i, c in enumerate(files.schema)])
    return as_declared(
        parsed.select(*LINE_COLUMNS, raw.alias("raw"), F.lit(None).cast("string").alias("malformed")), files.schema
    )
