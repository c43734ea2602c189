"""Rows of CSV files: columns are matched by the names in each file's header, and a file without them is not read.

Fields are parsed a block of lines at a time:

    of a header with 3 fields    wanted   r0      r1     malformed   hard
    a,1,10                       0, 1     a       1
    "b, c",2,20                           b, c    2
    d,4                                                  the line does not have the 3 fields of the header
    "e"x,5,50                                                        true

Lines without a quote are split at the delimiter, all at once; those with quotes are read by Python's ``csv`` in strict
mode. A line that it refuses is ``hard``: the engine reads it with its own parser (`parse_csv`). Held by
``tests/infra/sources/landing/test_fields.py`` and ``tests/infra/sources/test_both_readers.py``.
"""

# pyarrow.compute makes its functions when it is imported.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermeet.infra.small_frames import frame_of
from rivermeet.infra.sources.declared_types import declare
from rivermeet.infra.sources.files.landing.files import UnreadableError, land
from rivermeet.infra.sources.files.landing.lines import Lines, build_unclosed_pattern
from rivermeet.infra.sources.files.line_formats import (
    NOT_UTF8,
    NOT_UTF8_LINE,
    FileRows,
    Place,
    Problems,
    Ranks,
    sequential_lines,
    split_lines,
    wider,
)
from rivermeet.infra.sources.places import LINE_COLUMNS, no_column
from rivermeet.pipelines import Files
from rivermeet.pipelines.errors import SourceError

_WANTED = pa.schema([("wanted_file", pa.string()), ("wanted_member", pa.string())])
_MAX_COLUMNS = 20_480
"""Fields of a line that are parsed, unless the header has more: Spark's default."""


def csv_rows(spark: SparkSession, files: Files, ranks: Ranks, landing: Path | None) -> FileRows:
    """The files' rows; ``landing`` is an empty folder for what this process reads. None: the engine reads all."""
    if len(files.delimiter) != 1:
        says = f"CSV delimiter {files.delimiter!r} of '{files.pattern}': give one character"
        raise SourceError(says, delimiter=files.delimiter, files=files.pattern)
    if landing is None:
        return engine_rows(spark, files, ranks)
    hard = set[str]()
    own = [
        ("malformed", pa.string()),
        ("hard", pa.bool_()),
        *((f"r{i}", pa.string()) for i in range(len(files.schema))),
    ]
    landed = land(landing, pa.schema(own), ranks, files.delimiter, lambda lines: _fields(lines, files, hard))
    rows = landed.read(spark)
    raw = [F.col(f"r{i}") for i in range(len(files.schema))]
    sure = rows.where("NOT hard") if hard else rows
    groups = [declare(sure, files.schema, raw, F.col("malformed"), _texts(files))]
    groups += [parse_csv(rows.where(F.col("hard") & (F.col("header") == one)), one, files) for one in sorted(hard)]
    if landed.left:
        more = engine_rows(spark, files, landed.left)
        return FileRows(groups + more.groups, landed.problems | more.problems)
    return FileRows(groups, landed.problems, landed.count)


def _fields(lines: Lines, files: Files, hard: set[str]) -> Iterator[Sequence[pa.Array]]:
    """Columns of the lines below a header; ``hard`` gets the header if the engine has to parse a line."""
    header, names = None, list[str]()
    for numbers, texts in lines:
        if header is None:
            header = texts[0].as_py()
            if problem := header_problem(header, files):
                raise UnreadableError(problem, header=header)
            names = _names(header, files)
            numbers, texts = numbers[1:], texts[1:]
        wanted = [names.index(column) for column in files.schema]
        found = fields_of(texts, files.delimiter, len(names), wanted, files.null)
        if pc.any(found.hard).as_py():
            hard.add(header)
        yield numbers, texts, pa.repeat(header, len(texts)), found.malformed, found.hard, *found.wanted


def engine_rows(spark: SparkSession, files: Files, ranks: Ranks) -> FileRows:
    """The rows of `csv_rows`, read by the engine.

    A first scan without parsing reads the headers, and searches for quoted fields that do not close
    on their line: files with such fields are read sequentially, so fields may contain line breaks
    there. A quote that never closes makes only its own line malformed. An archive is read
    completely or, if one member cannot be read, not at all, so that it can be read again.
    """
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
    groups = [parse_csv(split_lines(spark, group, header), header, files) for header, group in by_header.items()]
    if sequential:
        more, unsound = _sequential_groups(spark, files, sequential)
        groups, problems = groups + more, problems | unsound
    return FileRows(groups, problems)


def _survey(spark: SparkSession, files: Files, ranks: Ranks) -> Iterable:
    if not ranks:
        return []
    first = F.min_by("text", F.struct("block", "row")).alias("header")
    opens = F.max(_opens(files))
    lines = split_lines(spark, ranks)
    return lines.groupBy("file_rank", "file").agg(first, opens.alias("opens")).orderBy("file_rank").collect()


def _opens(files: Files) -> Column:
    """Whether the line opens a quoted field that does not close; most lines have no quote, and need no pattern."""
    return F.contains("text", F.lit('"')) & F.rlike("text", F.lit(build_unclosed_pattern(files.delimiter)))


def _sequential_groups(spark: SparkSession, files: Files, ranks: Ranks) -> tuple[list[DataFrame], Problems]:
    members: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    problems = Problems()
    for row in sequential_lines(spark, ranks, files.delimiter, first_only=True).collect():
        problem = row.problem or header_problem(row.text, files)
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
        groups.append(parse_csv(lines.where(F.col("row") > 0), header, files))
    return groups, problems


def parse_csv(lines: DataFrame, header: str, files: Files) -> DataFrame:
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
    parsed = lines.select("*", wide.alias("wide")).select(*LINE_COLUMNS, "wide", row.alias("p"))

    def text(position: int) -> Column:
        field = F.nullif(F.col(f"p.c{position}"), F.lit(""))
        return field if files.null is None else F.nullif(field, F.lit(files.null))

    malformed = (
        F.when(F.contains("text", F.lit("\ufffd")), NOT_UTF8_LINE)
        .when(
            _opens(files),
            "a quoted field of the line does not close",
        )
        .when(F.col("wide") | F.isnotnull("p.bad"), not_so_wide(len(names)))
    )
    return declare(parsed, files.schema, [text(names.index(name)) for name in files.schema], malformed, _texts(files))


def _texts(files: Files) -> list[T.DataType]:
    return [T.StringType()] * len(files.schema)


def header_problem(header: str, files: Files) -> str | None:
    """Why no line below this header can be read; None if they can."""
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


class Fields(NamedTuple):
    """Columns of lines: each wanted field, why a line has none, and whether the engine has to parse it."""

    wanted: list[pa.Array]
    malformed: pa.Array
    hard: pa.Array


def not_so_wide(width: int) -> str:
    """The reason for a line with another number of fields than the header."""
    return f"the line does not have the {width} fields of the header"


def fields_of(texts: pa.Array, delimiter: str, width: int, wanted: Sequence[int], null: str | None) -> Fields:
    """Fields of lines that close every quoted field, except stray quotes.

    ``wanted`` are their places among the ``width`` fields of the header; ``null`` is a text that means null in addition
    to the empty one.
    """
    special = pc.or_(pc.match_substring(texts, '"'), pc.match_substring(texts, "\0"))
    plain = texts.filter(pc.invert(special))
    lists = pc.split_pattern(plain, delimiter)
    wide = pc.equal(pc.list_value_length(lists), width)
    sound = lists if pc.all(wide).as_py() else lists.filter(wide)
    flat = sound.flatten()
    columns = [flat.take(pa.array(np.arange(at, len(flat), width))) for at in wanted]
    malformed, hard = pa.nulls(len(texts), pa.string()), pa.repeat(False, len(texts))
    if len(sound) < len(texts):
        read, states = _read_quoted(texts.filter(special).to_pylist(), delimiter, width, wanted)
        state = np.empty(len(texts), np.int8)
        is_special = special.to_numpy(zero_copy_only=False)
        state[~is_special] = np.where(wide.to_numpy(zero_copy_only=False), _SOUND, _WIDTH)
        state[is_special] = states
        # The index of each line's fields: plain lines come first, then those that were read one by one.
        order = np.concatenate([np.flatnonzero((state == _SOUND) & of) for of in (~is_special, is_special)])
        place = np.full(len(texts), -1, np.int64)
        place[order] = np.arange(len(order))
        at = pa.array(place, mask=place < 0)
        columns = [
            pa.concat_arrays([column, pa.array([row[n] for row in read], pa.string())]).take(at)
            for n, column in enumerate(columns)
        ]
        malformed = pc.if_else(pa.array(state == _WIDTH), not_so_wide(width), malformed)
        hard = pa.array(state == _HARD)
        broken = pc.match_substring(texts, "\ufffd")
        malformed, hard = pc.if_else(broken, NOT_UTF8_LINE, malformed), pc.and_not(hard, broken)
    elif pc.any(broken := pc.match_substring(texts, "\ufffd")).as_py():
        malformed = pc.if_else(broken, NOT_UTF8_LINE, malformed)
    return Fields([_with_nulls(column, null) for column in columns], malformed, hard)


_SOUND, _WIDTH, _HARD = range(3)


def _read_quoted(
    texts: Sequence[str], delimiter: str, width: int, wanted: Sequence[int]
) -> tuple[list[list[str]], list[int]]:
    """Wanted fields of the valid lines with quotes, and the kind of each line."""
    rows: list[list[str]] = []
    states: list[int] = []
    for text in texts:
        try:
            found = None if "\0" in text else next(csv.reader((text,), delimiter=delimiter, strict=True))
        except (csv.Error, StopIteration):
            found = None
        states.append(_HARD if found is None else _SOUND if len(found) == width else _WIDTH)
        if found is not None and len(found) == width:
            rows.append([found[at] for at in wanted])
    return rows, states


def _with_nulls(column: pa.Array, null: str | None) -> pa.Array:
    nothing = pc.is_in(column, pa.array([""] if null is None else ["", null]))
    return pc.if_else(nothing, pa.scalar(None, pa.string()), column)
