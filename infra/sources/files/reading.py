"""Reads the files of a source into records and dead letters, parsing every file once.

No content of a file prevents the others from being read:

    1.csv   a,1,10      a record
            b,x,20      a dead letter: its line, and "column 'n': 'x' is not INT"
    2.csv   another header, UTF-16; a .gz cut short, a damaged .parquet: one dead letter for the file, without text
    3.csv   empty, or a header alone: nothing

A file is read completely or not at all, so a dead file can be read again (``infra/sources/source_step.py``).
Held by ``tests/infra/sources/test_bad_input.py``, ``tests/infra/sources/test_reading.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from pathlib import Path
from weakref import WeakSet

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from rivermeet.infra.delta.io import read as read_table
from rivermeet.infra.small_frames import frame_of, numbers_of
from rivermeet.infra.sources.declared_types import declare, no_text
from rivermeet.infra.sources.files.csv import csv_rows, header_problem, parse_csv
from rivermeet.infra.sources.files.discovery import FileState, unopenable
from rivermeet.infra.sources.files.json import json_rows, parse_json_lines
from rivermeet.infra.sources.files.landing.lines import NOT_GZIP
from rivermeet.infra.sources.files.line_formats import Place, Problems, Ranks
from rivermeet.infra.sources.files.parquet import parquet_rows, parse_parquet_rows
from rivermeet.infra.sources.places import path_of
from rivermeet.infra.sources.row_to_record import SourceFrames, is_cut, partition_of, to_records
from rivermeet.pipelines import Files, Source
from rivermeet.pipelines.errors import SourceError

_CAUSE = re.compile(r"Caused by: (?:[\w$]+\.)*([^\n]*)")
_UNREAD = pa.schema(
    [("file_rank", pa.int32()), ("file", pa.string()), ("modified_ms", pa.int64()), ("malformed", pa.string())]
)
_in_utc: WeakSet[SparkSession] = WeakSet()
"""Sessions that were asked for their zone."""
_READERS = {"csv": csv_rows, "json": json_rows, "parquet": parquet_rows}


def read(
    spark: SparkSession,
    source: Source,
    partitions: int,
    files: Sequence[FileState],
    unread: Mapping[str, str] | None = None,
    again: Sequence[DataFrame] = (),
    landing: Path | None = None,
) -> SourceFrames:
    """Read records and dead letters of these files, in the order of their paths.

    A quoted CSV field may span up to 1000 lines; an unclosed quote makes only its
    own line dead. Lines end with LF, CRLF or CR. Blank lines are ignored. A line
    that is not UTF-8 is dead. A file that turns out to be damaged during the scan fails the
    scan: `read_all` handles that.

    Parameters
    ----------
    spark
        Session with time zone UTC.
    unread
        Paths of files that are not read, but dead, with the reasons.
    again
        Rows of earlier dead letters, as from `as_declared`.
    landing
        An empty folder for the text files that this process reads; None: the engine reads all.
    """
    if spark not in _in_utc:
        zone = spark.conf.get("spark.sql.session.timeZone")
        if zone not in ("UTC", "Etc/UTC", "Z"):
            says = f"the Spark session's time zone is {zone}; set spark.sql.session.timeZone to UTC"
            raise SourceError(says, time_zone=zone)
        _in_utc.add(spark)
    states = sorted(files, key=lambda state: state.path)
    ranks = {state.path: Place(rank, state.modified_ms) for rank, state in enumerate(states)}
    problems = Problems({**unopenable(states), **(unread or {})})
    sound = {path: place for path, place in ranks.items() if path not in problems}
    groups, count = list(again), None
    if sound:
        rows = _READERS[source.files.format](spark, source.files, sound, landing)
        groups, problems = [*groups, *rows.groups], problems | rows.problems
        count = rows.count if not again else None
    if problems or not groups:
        groups.append(_of_files(spark, source.files, ranks, problems))
    parsed = to_records(reduce(DataFrame.unionAll, groups), source)
    return SourceFrames(parsed.select("*", partition_of(F.col("key"), partitions).alias("partition")), count)


def read_all(
    read: Callable[[Mapping[str, str]], SourceFrames], files: Collection[str]
) -> tuple[SourceFrames, int, int]:
    """Compute the frames of ``read``, which reads and caches all files except those passed with a reason.

    Returns them, and the number of dead rows, and how many of these are whole files.

    A file that fails the scan does not affect the others.
    """
    damaged: dict[str, str] = {}
    while True:
        try:
            frames = read(damaged)
            dead = F.isnotnull("reason")
            rows, whole = numbers_of(frames.parsed, F.count_if(dead), F.count_if(dead & F.isnull("text")))
            return frames, rows, whole
        except PySparkException as error:
            path = path_of((error.getMessageParameters() or {}).get("path", ""))
            kind = error.getCondition() or ""
            gone = kind.endswith("FILE_NOT_EXIST")
            if not kind.startswith("FAILED_READ_FILE") or gone or path in damaged or path not in files:
                raise
            causes = _CAUSE.findall(str(error))
            cause = causes[-1] if causes else str(error).splitlines()[0]
            denied = "Permission denied" in cause
            damaged[path] = NOT_GZIP if path.endswith(".gz") and not denied else f"the file cannot be read: {cause}"


def _of_files(spark: SparkSession, files: Files, ranks: Ranks, problems: Problems) -> DataFrame:
    """A dead row for each file that cannot be read, as from `as_declared`."""
    typed = ", ".join(f"t{i}: {kind}" for i, kind in enumerate(files.schema.values()))
    rows = [(ranks[path].rank, path, ranks[path].modified_ms, reason) for path, reason in problems.items()]

    def nothing(kind: str, *names: str) -> list[Column]:
        return [F.lit(None).cast(kind).alias(name) for name in names]

    return frame_of(spark, rows, _UNREAD).select(
        *("file_rank", "file", "modified_ms", *nothing("STRING", "member")),
        *(F.lit(0).cast("BIGINT").alias(name) for name in ("block", "row")),
        *nothing("BIGINT", "line"),
        *nothing("STRING", "text", "header"),
        *nothing(f"STRUCT<{typed}>", "typed"),
        *nothing("ARRAY<INT>", "instants"),
        "malformed",
    )


GONE = "the file cannot be read again, because it is no longer among the files of the source; deliver it again"
_OTHER = "the row was a line of JSON; its source reads another format now"
_CUT = "the row is not kept whole and cannot be read again; deliver it in a new file"


def rows_again(spark: SparkSession, path: str, files: Files, epochs: Sequence[int]) -> list[DataFrame]:
    """Rows of the letters of these epochs, by the current declaration, as from `as_declared`; ``path`` is the table.

    Letters of files are not included: the file itself is read again.
    """
    lines = _in_order(read_table(spark, path).where(F.col("epoch").isin(list(epochs)) & (F.col("position") > 0)))
    rows = [_dead(lines.where(is_cut(F.col("text"))), files.schema, _CUT)]
    whole = lines.where(~is_cut(F.col("text")))
    if files.format == "json":
        return [*rows, parse_json_lines(whole, files)]
    rows.append(_dead(whole.where(F.isnull("header")), files.schema, _OTHER))
    for header in sorted(line.header for line in whole.select("header").distinct().collect() if line.header):
        part = whole.where(F.col("header") == header)
        parsed = _below(part, header, files)
        rows.append(_dead(part, files.schema, parsed) if isinstance(parsed, str) else parsed)
    return rows


def _below(lines: DataFrame, header: str, files: Files) -> DataFrame | str:
    if files.format == "parquet":
        return parse_parquet_rows(lines, header, files)
    return header_problem(header, files) or parse_csv(lines, header, files)


def _in_order(letters: DataFrame) -> DataFrame:
    """Letters as `LINE_COLUMNS`, by epoch, file and position, and before all files that are read."""
    last_first = Window.partitionBy(F.lit(0)).orderBy(F.desc("epoch"), F.desc("file"))
    files = (
        letters.select("epoch", "file").distinct().select("*", (-F.row_number().over(last_first)).alias("file_rank"))
    )
    return letters.join(F.broadcast(files), ["epoch", "file"]).select(
        F.col("file_rank").cast("int"),
        "file",
        "modified_ms",
        no_text().alias("member"),
        F.lit(0).cast("bigint").alias("block"),
        F.col("position").cast("bigint").alias("row"),
        "line",
        "text",
        "header",
    )


def _dead(lines: DataFrame, schema: Mapping[str, str], reason: str) -> DataFrame:
    """Lines as `as_declared` gives them, dead for one reason."""
    return declare(lines, schema, [F.lit(None).cast(kind) for kind in schema.values()], F.lit(reason))
