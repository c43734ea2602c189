"""Rows of CSV files: columns are found by their names in each file's header."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from infra.declared_types import as_declared
from infra.file_discovery import FileState
from infra.line_formats import LINE_COLUMNS, Ranks, split_lines, unclosed
from infra.sequential_lines import sequential_lines
from pipelines import Files


def csv_rows(spark: SparkSession, files: Files, states: Sequence[FileState]) -> DataFrame | None:
    """Give what `as_declared` gives, or None if no file has a header.

    One scan without parsing looks at the headers first, and for quoted fields that do not close
    on their line: files that have any are read from start to end, so a field may hold line breaks
    there. A quote that never closes makes its own line malformed, and no other.
    """
    if len(files.delimiter) != 1:
        raise ValueError(f"CSV delimiter {files.delimiter!r} of '{files.pattern}': give one character")
    ranks = {state.path: rank for rank, state in enumerate(states)}
    zipped = {path: rank for path, rank in ranks.items() if path.lower().endswith(".zip")}
    by_header: dict[str, dict[str, int]] = defaultdict(dict)
    sequential = dict(zipped)
    for row in _survey(spark, files, {p: r for p, r in ranks.items() if p not in zipped}):
        if row.opens:
            sequential[row.file] = row.file_rank
        else:
            by_header[row.header][row.file] = row.file_rank
    groups = [_parsed(split_lines(spark, group, header), header, files, group) for header, group in by_header.items()]
    if sequential:
        groups += _sequential_groups(spark, files, sequential)
    return reduce(DataFrame.unionAll, groups) if groups else None


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


def _sequential_groups(spark: SparkSession, files: Files, ranks: Ranks) -> list[DataFrame]:
    members: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for row in sequential_lines(spark, ranks, files.delimiter, first_only=True).collect():
        if row.problem is not None:
            raise ValueError(f"file {row.file} cannot be read ({row.problem}); replace it by a sound one")
        members[row.text].append((row.file, row.member))
    groups: list[DataFrame] = []
    for header, found in sorted(members.items()):
        part = {path: ranks[path] for path, _ in found}
        wanted = F.broadcast(spark.createDataFrame(found, "wanted_file STRING, wanted_member STRING"))
        lines = sequential_lines(spark, part, files.delimiter).join(
            wanted,
            (F.col("file") == F.col("wanted_file")) & F.col("member").eqNullSafe(F.col("wanted_member")),
            "left_semi",
        )
        groups.append(_parsed(lines.where(F.col("row") > 0), header, files, part))
    return groups


def _parsed(lines: DataFrame, header: str, files: Files, ranks: Ranks) -> DataFrame:
    names = next(csv.reader([header], delimiter=files.delimiter))
    at = {column: _position(column, names, min(ranks)) for column in files.schema}
    fields = ", ".join(f"c{i} STRING" for i in range(len(names)))
    options = {
        "sep": files.delimiter,
        "escape": '"',
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "bad",
    }
    parsed = lines.select(*LINE_COLUMNS, F.from_csv("text", f"{fields}, bad STRING", options).alias("p"))

    def text(position: int) -> Column:
        field = F.nullif(F.col(f"p.c{position}"), F.lit(""))
        return field if files.null is None else F.nullif(field, F.lit(files.null))

    malformed = (
        F.when(F.contains("text", F.lit("\ufffd")), "the line is not UTF-8 text")
        .when(
            _opens(files),
            "a quoted field of the line does not close",
        )
        .when(F.isnotnull("p.bad"), f"the line does not have the {len(names)} fields of the header")
    )
    raw = F.struct(*[text(at[column]).alias(f"r{i}") for i, column in enumerate(files.schema)])
    rows = parsed.select(*LINE_COLUMNS, raw.alias("raw"), malformed.alias("malformed"))
    return as_declared(rows, files.schema)


def _position(column: str, names: list[str], path: str) -> int:
    if names.count(column) == 1:
        return names.index(column)
    problem = "has two columns" if column in names else "has no column"
    raise ValueError(
        f"file {path} {problem} '{column}' in its header ({', '.join(names)}); "
        "correct the file, or the schema of the source"
    )
