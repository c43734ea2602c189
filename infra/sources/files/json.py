"""Rows of JSON files: one object a line, fields by name.

A number keeps all of its digits: 0.10 is the text "0.10" if STRING is declared. JSON
parsers convert numbers to doubles, so numbers are parsed as text, behind a mark that
distinguishes them from strings.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermeet.infra.sources.declared_types import declare
from rivermeet.infra.sources.files.landing.files import land
from rivermeet.infra.sources.files.landing.lines import Lines
from rivermeet.infra.sources.files.line_formats import NOT_UTF8, NOT_UTF8_LINE, FileRows, Ranks, split_lines
from rivermeet.pipelines import Files
from rivermeet.pipelines.expressions import quote
from rivermeet.records.type_text import kind_of, type_text

_MARK = "\ufdd0"
"""A noncharacter, which does not occur in text (Unicode, 23.7); a line that contains it is malformed."""
_STRINGS = r"""[^"'0-9-]++|-(?![0-9])|"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+'"""
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?"
# Possessive, so that a long line costs one pass; from the end of the last match on, so that digits in strings do not
# match.
_NUMBERS = rf"(?s)\G((?:{_STRINGS})*+)({_NUMBER})(?=[\s,\]}}]|$)"
_MARKED = rf'"?{_MARK}([-+.0-9eE]+)"?'


_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def json_rows(spark: SparkSession, files: Files, ranks: Ranks, landing: Path | None) -> FileRows:
    """The files' rows; a field that is absent is null. ``landing`` is as in `csv_rows`."""
    problems = {path: problem for path in ranks if (problem := _problem(path))}
    left = {path: place for path, place in ranks.items() if path not in problems}
    lines: list[DataFrame] = []
    count: int | None = None
    if landing is not None:
        landed = land(landing, pa.schema([]), left, None, _lines)
        left, problems, count = landed.left, problems | landed.problems, landed.count
        lines.append(landed.read(spark))
    if left:
        lines.append(split_lines(spark, left))
    return FileRows([parse_json_lines(of, files) for of in lines], problems, count)


def _lines(lines: Lines) -> Iterator[Sequence[pa.Array]]:
    for numbers, texts in lines:
        yield numbers, texts, pa.nulls(len(texts), pa.string())


def parse_json_lines(lines: DataFrame, files: Files) -> DataFrame:
    """Give what `as_declared` gives of lines."""
    parsed = lines.select("*", parse_json_text(F.col("text"), files.schema).alias("p"))
    malformed = F.when(F.contains("text", F.lit("\ufffd")), NOT_UTF8_LINE).when(
        not_one_object(F.col("p")),
        "the line is not one JSON object with fields of the declared types",
    )
    fields = [json_field(F.col("p"), name, kind) for name, kind in files.schema.items()]
    given = [_text_type(_kind(kind, ())) for kind in files.schema.values()]
    return declare(parsed, files.schema, fields, malformed, given)


def parse_json_text(text: Column, schema: Mapping[str, str], encoded: tuple[str, ...] = ()) -> Column:
    """One JSON object a text, as `json_field` and `not_one_object` take it.

    ``encoded`` are the types that the text has in a form of their own: bytes in base64.
    """
    # In an object around it, a second object on the line is an error; from_json drops it unseen
    # (test: JSON fields by name).
    wrapped = F.concat(F.lit('{"r":'), F.regexp_replace(text, _NUMBERS, rf'$1"{_MARK}$2"'), F.lit("}"))
    sound = ~F.rlike(text, F.lit(rf"(?i){_MARK}|\\ufdd0"))
    columns = ", ".join(f"{quote(name)} {type_text(_text_type(_kind(kind, encoded)))}" for name, kind in schema.items())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    return F.from_json(F.when(sound, wrapped), f"r STRUCT<{columns}>, bad STRING", options)


def json_field(parsed: Column, name: str, kind: str, encoded: tuple[str, ...] = ()) -> Column:
    """A field of the result of `parse_json_text`: the original text, except bytes in base64."""
    return _unmark(parsed["r"].getField(name), _text_type(_kind(kind, encoded)))


def _kind(declared: str, encoded: tuple[str, ...]) -> T.DataType:
    if "<" in declared:
        return kind_of(declared)
    return T.BinaryType() if declared.upper().startswith(encoded) else T.StringType()


def _text_type(kind: T.DataType) -> T.DataType:
    """The type with STRING in place of all types that are cast from text."""
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_text_type(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(T.StringType(), _text_type(kind.valueType))
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(field.name, _text_type(field.dataType)) for field in kind])
    return kind if isinstance(kind, T.BinaryType) else T.StringType()


def _unmark(value: Column, kind: T.DataType) -> Column:
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda part: _unmark(part, kind.elementType))
    if isinstance(kind, T.MapType):
        return F.transform_values(value, lambda _, part: _unmark(part, kind.valueType))
    if isinstance(kind, T.StructType):
        fields = [_unmark(value.getField(field.name), field.dataType).alias(field.name) for field in kind]
        return F.when(F.isnotnull(value), F.struct(*fields))
    if isinstance(kind, T.BinaryType):
        return value
    return F.when(F.contains(value, F.lit(_MARK)), F.regexp_replace(value, _MARKED, "$1")).otherwise(value)


def not_one_object(parsed: Column) -> Column:
    """Whether the input of `parse_json_text` is not an object with fields of the declared types."""
    return F.isnull(parsed["r"]) | F.isnotnull(parsed["bad"])


def _problem(path: str) -> str | None:
    """Why none of a file's lines can be read, if its name or its first bytes show it."""
    if path.lower().endswith(".zip"):
        return "zip is read for format csv; compress JSON lines with gzip"
    if not path.startswith("/"):
        return None
    # Split at line feeds, a UTF-16 file would be one dead letter per line.
    try:
        with gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb") as file:
            first = file.read(4)
    except (OSError, EOFError, zlib.error):
        return None
    return NOT_UTF8 if first.startswith(_UTF16) or b"\0" in first else None
