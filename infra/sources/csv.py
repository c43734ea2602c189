"""Rows of CSV files: columns are found by their names in each file's header, and a file without them is not read."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from infra.small_frames import frame_of
from infra.sources.declared_types import as_declared
from infra.sources.line_formats import (
    LINE_COLUMNS,
    NOT_UTF8,
    Place,
    Problems,
    Ranks,
    no_column,
    split_lines,
    unclosed,
    wider,
)
from infra.sources.sequential_lines import sequential_lines
from pipelines import Files

_WANTED = pa.schema([("wanted_file", pa.string()), ("wanted_member", pa.string())])
_MAX_COLUMNS = 20_480
"""Fields of a line that are parsed, where the header does not have more: Spark's default."""


def csv_rows(spark: SparkSession, files: Files, ranks: Ranks) -> tuple[list[DataFrame], Problems]:
    """Give what `as_declared` gives, by header, and the files that cannot be read.

    One scan without parsing looks at the headers first, and for quoted fields that do not close
    on their line: files that have any are read from start to end, so a field may hold line breaks
    there. A quote that never closes makes its own line malformed, and no other. An archive is read
    whole or, where one member cannot be read, not at all: so it can be read again.
    """
    if len(files.delimiter) != 1:
        raise ValueError(f"CSV delimiter {files.delimiter!r} of '{files.pattern}': give one character")
    zipped = {path: place for path, place in ranks.items() if path.lower().endswith(".zip")}
    by_header: dict[str, dict[str, Place]] = defaultdict(dict)
    sequential, problems = dict(zipped), Problems()
    for row in _survey(spark, files, {p: place for p, place in ranks.items() if p not in zipped}):
        if row.opens:
            sequential[row.file] = ranks[row.file]
        elif problem := header_problem(row.header, files):
            problems[row.file] = problem
        else:
            by_header[row.header][row.file] = ranks[row.file]
    groups = [csv_parsed(split_lines(spark, group, header), header, files) for header, group in by_header.items()]
    if sequential:
        more, unsound = _sequential_groups(spark, files, sequential)
        groups, problems = groups + more, problems | unsound
    return groups, problems


def _survey(spark: SparkSession, files: Files, ranks: Ranks) -> Iterable:
    if not ranks:
        return []
    first = F.min_by("text", F.struct("block", "row")).alias("header")
    opens = F.max(_opens(files))
    lines = split_lines(spark, ranks)
    return lines.groupBy("file_rank", "file").agg(first, opens.alias("opens")).orderBy("file_rank").collect()


def _opens(files: Files) -> Column:
    """Whether the line opens a quoted field for good; most lines have no quote, and spare the pattern."""
    return F.contains("text", F.lit('"')) & F.rlike("text", F.lit(unclosed(files.delimiter)))


def _sequential_groups(spark: SparkSession, files: Files, ranks: Ranks) -> tuple[list[DataFrame], Problems]:
    members: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    problems = Problems()
    for row in sequential_lines(spark, ranks, files.delimiter, first_only=True).collect():
        unsound = f"the file cannot be read: {row.problem}" if row.problem else None
        problem = unsound or header_problem(row.text, files)
        if problem:
            problems.setdefault(row.file, f"{row.member}: {problem}" if row.member else problem)
        else:
            members[row.text].append((row.file, row.member))
    groups: list[DataFrame] = []
    for header, named in sorted(members.items()):
        found = [(path, member) for path, member in named if path not in problems]
        if not found:
            continue
        part = {path: ranks[path] for path, _ in found}
        wanted = F.broadcast(frame_of(spark, found, _WANTED))
        lines = sequential_lines(spark, part, files.delimiter).join(
            wanted,
            (F.col("file") == F.col("wanted_file")) & F.col("member").eqNullSafe(F.col("wanted_member")),
            "left_semi",
        )
        groups.append(csv_parsed(lines.where(F.col("row") > 0), header, files))
    return groups, problems


def csv_parsed(lines: DataFrame, header: str, files: Files) -> DataFrame:
    """Give what `as_declared` gives of lines below a header that has no `header_problem`."""
    names = _names(header, files)
    fields = ", ".join(f"c{i} STRING" for i in range(len(names)))
    widest = max(_MAX_COLUMNS, len(names))
    options = {
        "sep": files.delimiter,
        "maxColumns": str(widest),
        "escape": '"',
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "bad",
    }
    lines = lines.withColumn("header", F.lit(header))
    # A wider line would fail the query, and not be malformed (test: a field of ten megabytes).
    delimiters = F.char_length("text") - F.char_length(F.replace("text", F.lit(files.delimiter), F.lit("")))
    wide = (delimiters >= widest) & F.rlike("text", F.lit(wider(files.delimiter, widest)))
    row = F.from_csv(F.when(~wide, F.col("text")), f"{fields}, bad STRING", options)
    parsed = lines.withColumn("wide", wide).select(*LINE_COLUMNS, "wide", row.alias("p"))

    def text(position: int) -> Column:
        field = F.nullif(F.col(f"p.c{position}"), F.lit(""))
        return field if files.null is None else F.nullif(field, F.lit(files.null))

    malformed = (
        F.when(F.contains("text", F.lit("\ufffd")), "the line is not UTF-8 text")
        .when(
            _opens(files),
            "a quoted field of the line does not close",
        )
        .when(F.col("wide") | F.isnotnull("p.bad"), f"the line does not have the {len(names)} fields of the header")
    )
    raw = F.struct(*[text(names.index(column)).alias(f"r{i}") for i, column in enumerate(files.schema)])
    rows = parsed.select(*LINE_COLUMNS, raw.alias("raw"), malformed.alias("malformed"))
    return as_declared(rows, files.schema)


def header_problem(header: str, files: Files) -> str | None:
    """Why nothing below this header can be read, if so."""
    try:
        names = _names(header, files)
    except csv.Error as error:
        return f"the file's header cannot be read: {error}"
    for column in files.schema:
        if names.count(column) != 1:
            if "\0" in header or "\ufffd" in header:
                return NOT_UTF8
            return no_column(column, names, names.count(column))
    return None


def _names(header: str, files: Files) -> list[str]:
    return next(csv.reader([header], delimiter=files.delimiter))
