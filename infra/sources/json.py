"""Rows of JSON files: one object a line, fields by name."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from infra.sources.declared_types import as_declared
from infra.sources.line_formats import LINE_COLUMNS, NOT_UTF8, Problems, Ranks, split_lines
from pipelines import Files
from pipelines.source import quoted

_AS_DECLARED = ("DECIMAL", "NUMERIC", "ARRAY", "STRUCT", "MAP")
"""Types that the parser must give itself: as text, a number has been a double (test: digits)."""


_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def json_rows(spark: SparkSession, files: Files, ranks: Ranks) -> tuple[list[DataFrame], Problems]:
    """Give what `as_declared` gives, and the files that cannot be read; a field that is absent is null."""
    problems = {path: problem for path in ranks if (problem := _problem(path))}
    sound = {path: place for path, place in ranks.items() if path not in problems}
    return [json_parsed(split_lines(spark, sound), files)] if sound else [], problems


def json_parsed(lines: DataFrame, files: Files) -> DataFrame:
    """Give what `as_declared` gives of lines."""
    parsed = lines.withColumn("p", parsed_json(F.col("text"), files.schema))
    malformed = F.when(F.contains("text", F.lit("\ufffd")), "the line is not UTF-8 text").when(
        not_one_object(F.col("p")),
        "the line is not one JSON object with fields of the declared types",
    )
    raw = F.struct(*[F.col("p.r").getField(c).alias(f"r{i}") for i, c in enumerate(files.schema)])
    rows = parsed.select(*LINE_COLUMNS, raw.alias("raw"), malformed.alias("malformed"))
    return as_declared(rows, files.schema)


def parsed_json(text: Column, schema: Mapping[str, str], encoded: tuple[str, ...] = ()) -> Column:
    """One JSON object a text, as a struct with the fields in ``r``; of types to be cast, these are text.

    Parameters
    ----------
    encoded
        Types, besides numbers and nested ones, that the text has in a form of their own: bytes in base64.
    """
    # In an object around it, a second object on the line is an error; from_json drops it unseen
    # (test: JSON fields by name).
    wrapped = F.concat(F.lit('{"r":'), text, F.lit("}"))
    columns = ", ".join(
        f"{quoted(name)} {kind if kind.upper().startswith((*_AS_DECLARED, *encoded)) else 'STRING'}"
        for name, kind in schema.items()
    )
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    return F.from_json(wrapped, f"r STRUCT<{columns}>, bad STRING", options)


def not_one_object(parsed: Column) -> Column:
    """Whether the text that `parsed_json` had is no object with fields of the declared types."""
    return F.isnull(parsed["r"]) | F.isnotnull(parsed["bad"])


def _problem(path: str) -> str | None:
    """Why none of a file's lines could be read, where its name or its first bytes show it."""
    if path.lower().endswith(".zip"):
        return "zip is read for format csv; compress JSON lines with gzip"
    if not path.startswith("/"):
        return None
    # Cut at its line feeds, a file of UTF-16 would be as many dead letters as it has lines.
    try:
        with gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb") as file:
            first = file.read(4)
    except (OSError, EOFError, zlib.error):
        return None
    return NOT_UTF8 if first.startswith(_UTF16) or b"\0" in first else None
