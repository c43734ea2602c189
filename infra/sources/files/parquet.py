"""Rows of Parquet files: columns by name, each file with its own types.

A column of times in nanoseconds, which pandas writes and for which Spark has no type, is read as text with nine digits
after the seconds: a TIMESTAMP if microseconds suffice, otherwise a dead letter, and every digit as STRING.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermeet.infra.sources.declared_types import as_declared, declare, no_text
from rivermeet.infra.sources.files.line_formats import FileRows, Place, Problems, Ranks, add_ranks
from rivermeet.infra.sources.places import no_column, spark_path
from rivermeet.pipelines import Files
from rivermeet.pipelines.expressions import quote

_TO_THE_MICROSECOND = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
CLOCKS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": _TO_THE_MICROSECOND,
}
"""To the microsecond: a row is read again from its text, and the default format of JSON has only milliseconds."""


def parquet_rows(spark: SparkSession, files: Files, ranks: Ranks, landing: Path | None) -> FileRows:
    """The files' rows by layout, as JSON for ``text``; the engine reads them, so ``landing`` stays as it is."""
    del landing
    layouts: dict[_Layout, dict[str, Place]] = defaultdict(dict)
    problems, groups, counts = Problems(), list[DataFrame](), list[int | None]()
    for path, place in ranks.items():
        try:
            layout, held = _layout(spark, path)
            layouts[layout][path] = place
            counts.append(held)
        except (OSError, ValueError, PySparkException) as error:
            problems[path] = f"the file is no Parquet file that can be read: {str(error).splitlines()[0]}"
    for layout, group in layouts.items():
        rows = _rows(spark, files, group, layout)
        if isinstance(rows, str):
            problems |= dict.fromkeys(group, rows)
        else:
            groups.append(rows)
    known = [rows for rows in counts if rows is not None]
    return FileRows(groups, problems, sum(known) if len(known) == len(counts) else None)


class _Layout(NamedTuple):
    """The properties that files must share to be scanned together: an INT of one is not read as BIGINT of another.

    ``instants`` and ``clocks`` are the columns in nanoseconds.
    """

    schema: str
    instants: frozenset[str] = frozenset()
    clocks: frozenset[str] = frozenset()


def _layout(spark: SparkSession, path: str) -> tuple[_Layout, int | None]:
    """The layout of a file, and its number of rows if this process reads it."""
    if not path.startswith("/"):
        return _Layout(spark.read.parquet(spark_path(path)).schema.json()), None
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        schema = str(file.schema_arrow.remove_metadata())
        # Not from Arrow's types, which are those of the writer, and in which Spark's INT96 is nanoseconds too.
        rows = file.metadata.num_rows
        stored = [file.schema.column(i) for i in range(len(file.schema))]
    kinds = {column.path: json.loads(column.logical_type.to_json()) for column in stored}
    nanos = {
        name: kind
        for name, kind in kinds.items()
        if (kind["Type"], kind.get("timeUnit")) == ("Timestamp", "nanoseconds")
    }
    instants = frozenset(name for name, kind in nanos.items() if kind.get("isAdjustedToUTC"))
    return _Layout(schema + str(sorted(kinds.items())), instants, frozenset(nanos) - instants), rows


def _rows(spark: SparkSession, files: Files, ranks: Ranks, layout: _Layout) -> DataFrame | str:
    try:
        scan = spark.read.parquet(*[spark_path(path) for path in ranks])
        for column in files.schema:
            if column not in scan.columns:
                return no_column(column, scan.columns)
        row = F.struct(*[_in_micros(name, layout).alias(name) for name in scan.columns])
        raw = F.struct(*[row.getField(c).alias(f"r{i}") for i, c in enumerate(files.schema)])
        rows = scan.select(
            F.col("_metadata.file_path").alias("uri"),
            no_text().alias("member"),
            F.lit(0).cast("bigint").alias("block"),
            F.col("_metadata.row_index").alias("row"),
            (F.col("_metadata.row_index") + 1).alias("line"),
            F.to_json(row, CLOCKS).alias("text"),
            raw.alias("raw"),
            no_text().alias("malformed"),
        )
        schema = scan.select(row.alias("row")).select("row.*").schema
        named = add_ranks(rows, scan.inputFiles(), ranks).withColumn("header", F.lit(schema.json()))
        declared = as_declared(named, files.schema)
        assert declared.schema  # asks Spark whether the casts are possible at all
        return declared
    except ParseException:
        raise  # a declared type is invalid: the files are not the cause
    except (AnalysisException, ValueError) as error:
        return f"the file's columns cannot be read as declared: {str(error).splitlines()[0]}"


def _in_micros(name: str, layout: _Layout) -> Column:
    """A column; one in nanoseconds, which Spark reads as a number, as text."""
    column = F.col(quote(name))
    if name not in layout.instants | layout.clocks:
        return column
    rest = F.pmod(column, F.lit(1000))
    micros = F.timestamp_micros(F.floor(column / F.lit(1000).cast("decimal(4,0)")).cast("bigint"))
    digits = F.lpad(rest.cast("string"), 3, "0")
    return F.concat(F.date_format(micros, _TO_THE_MICROSECOND), digits, F.lit("Z" if name in layout.instants else ""))


def parse_parquet_rows(letters: DataFrame, header: str, files: Files) -> DataFrame | str:
    """Give what `as_declared` gives of rows kept as JSON and the schema of their file, or why it cannot be read."""
    schema = T.StructType.fromJson(json.loads(header))
    for column in files.schema:
        if column not in schema.names:
            return no_column(column, schema.names)
    parsed = letters.select("*", F.from_json("text", schema, CLOCKS).alias("p"))
    return declare(parsed, files.schema, [F.col("p").getField(name) for name in files.schema], no_text())
