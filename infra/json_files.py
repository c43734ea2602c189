"""Rows of JSON files: one object a line, fields by name."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from infra.declared_types import as_declared
from infra.file_discovery import FileState
from infra.line_formats import LINE_COLUMNS, split_lines
from pipelines import Files

_AS_DECLARED = ("DECIMAL", "NUMERIC", "ARRAY", "STRUCT", "MAP")
"""Types that the parser must give itself: as text, a number has been a double (test: digits)."""


def json_rows(spark: SparkSession, files: Files, states: Sequence[FileState]) -> DataFrame:
    """Give what `as_declared` gives; a field that is absent is null."""
    zipped = [state.path for state in states if state.path.lower().endswith(".zip")]
    if zipped:
        raise ValueError(f"file {zipped[0]}: zip is read for format csv; compress JSON lines with gzip")
    lines = split_lines(spark, {state.path: rank for rank, state in enumerate(states)})
    # In an object around it, a second object on the line is an error; from_json drops it unseen
    # (test: JSON fields by name).
    wrapped = F.concat(F.lit('{"r":'), "text", F.lit("}"))
    columns = ", ".join(
        f"`{name.replace('`', '``')}` {kind if kind.upper().startswith(_AS_DECLARED) else 'STRING'}"
        for name, kind in files.schema.items()
    )
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    parsed = lines.withColumn("p", F.from_json(wrapped, f"r STRUCT<{columns}>, bad STRING", options))
    malformed = F.when(F.contains("text", F.lit("\ufffd")), "the line is not UTF-8 text").when(
        F.isnull("p.r") | F.isnotnull("p.bad"),
        "the line is not one JSON object with fields of the declared types",
    )
    raw = F.struct(*[F.col("p.r").getField(c).alias(f"r{i}") for i, c in enumerate(files.schema)])
    rows = parsed.select(*LINE_COLUMNS, raw.alias("raw"), malformed.alias("malformed"))
    return as_declared(rows, files.schema)
