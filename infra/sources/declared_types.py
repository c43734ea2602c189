"""Values of a file as the types that its source declares, or a reason why one is not."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from infra.sources.line_formats import LINE_COLUMNS

SHOWN = 100
"""Characters of a bad value that a reason shows."""
_FLOATING = ("FLOAT", "REAL", "DOUBLE")
_WHOLE = ("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "LONG")


def as_declared(rows: DataFrame, schema: Mapping[str, str]) -> DataFrame:
    """Give `LINE_COLUMNS`, ``typed`` (a struct of ``t0``, ``t1``, … as declared) and ``malformed``.

    It works on each group of files before their union: a union of an INT with a STRING column
    would cast the strings, and fail the query on a bad one (test: parquet).
    """
    given = rows.select("raw.*").schema
    casts = [F.col(f"raw.r{i}").try_cast(kind).alias(f"t{i}") for i, kind in enumerate(schema.values())]
    typed = rows.withColumn("typed", F.struct(*casts))
    problems = [F.col("malformed")]
    for i, (name, kind) in enumerate(schema.items()):
        raw, value = F.col(f"raw.r{i}"), F.col(f"typed.t{i}")
        bad = F.isnull(value)
        if isinstance(given[i].dataType, T.FractionalType) and kind.upper() in _WHOLE:
            # The cast would cut 1.9 to 1 without a word.
            bad = bad | ~raw.eqNullSafe(value.cast(given[i].dataType))
        if kind.upper() in _FLOATING:
            # The cast makes 1e400 infinite without a word; a file that means infinity says so.
            infinite = F.abs(value) == float("inf")
            bad = bad | (infinite & ~F.rlike(raw.cast("string"), F.lit("(?i)^\\s*[+-]?inf")))
        if given[i].dataType.simpleString().upper() != kind.upper():
            problems.append(F.when(F.isnotnull(raw) & bad, not_a(f"column '{name}'", raw, kind)))
    return typed.select(*LINE_COLUMNS, "typed", F.coalesce(*problems).alias("malformed"))


def not_a(label: str, found: Column, kind: str) -> Column:
    """Say that a value is not of its type."""
    text = F.substring(found.cast("string"), 1, SHOWN)
    return F.concat(F.lit(f"{label}: '"), text, F.lit(f"' is not {kind.upper()}"))
