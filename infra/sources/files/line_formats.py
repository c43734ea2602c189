"""Lines of text files, in order, before they are parsed.

Two readers give the same columns, `LINE_COLUMNS`: with `split_lines` Spark splits big files into parts, and with
`sequential_lines` an executor reads each file from its start: zip members, and fields with line breaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.small_frames import frame_of
from rivermeet.infra.sources.files.landing import lines as walked
from rivermeet.infra.sources.files.landing.lines import field_pattern
from rivermeet.infra.sources.places import LINE_COLUMNS, LOCAL, path_of, spark_path

# Executors need not have this package.
cloudpickle.register_pickle_by_value(walked)
_NAMES = pa.schema(
    [("uri", pa.string()), ("file", pa.string()), ("file_rank", pa.int32()), ("modified_ms", pa.int64())]
)
NOT_UTF8 = "the file is not UTF-8 text; save it as UTF-8"
NOT_UTF8_LINE = "the line is not UTF-8 text"
_NEVER = "\u0001\u0002\u0003"
_NO_QUOTE = "\ufdd1"
"""A noncharacter, which does not occur in text; an empty quote would be NUL to Spark, which broken files do contain."""


class Place(NamedTuple):
    """A file's place in the order of files, and its modification time (epoch millis)."""

    rank: int
    modified_ms: int


Ranks = Mapping[str, Place]
"""Path of each file to its place."""
Problems = dict[str, str]
"""Path of each file that cannot be read to the reason."""


class FileRows(NamedTuple):
    """Rows of files: the result of `as_declared`, the unreadable files, and the number of rows.

    ``count`` is None if it is unknown before the engine has read them.
    """

    groups: list[DataFrame]
    problems: Problems
    count: int | None = None


def wider(delimiter: str, fields: int) -> str:
    """Return the pattern of a CSV line with more fields than that."""
    return rf"^(?:{field_pattern(delimiter)}){{{fields},}}+"


def split_lines(spark: SparkSession, ranks: Ranks, header: str | None = None) -> DataFrame:
    """Split plain or gzip files into lines with Spark, without blank ones and byte order marks.

    The CSV reader with a delimiter that does not occur and no quotes gives whole lines, and drops
    the header at the start of each file, where ``spark.read.text`` cannot distinguish it from an equal
    line further down (test: a row that equals the header). The column is named like the header
    because Spark logs a warning for every file where they differ.
    """
    name = (header or "text").replace("`", "``")
    scan = (
        spark.read.schema(f"`{name}` STRING")
        .options(sep=_NEVER, quote=_NO_QUOTE, header=header is not None)
        .csv([spark_path(path) for path in ranks])
    )
    lines = scan.select(
        F.col(f"`{name}`").alias("text"),
        F.col("_metadata.file_path").alias("uri"),
        F.col("_metadata.file_block_start").alias("block"),
        scan_row().alias("row"),
        F.lit(None).cast("bigint").alias("line"),
        F.lit(None).cast("string").alias("member"),
    )
    return add_ranks(lines, scan.inputFiles(), ranks).select(*LINE_COLUMNS)


def sequential_lines(spark: SparkSession, ranks: Ranks, delimiter: str, first_only: bool = False) -> DataFrame:
    """Return `LINE_COLUMNS` and ``problem``; a quoted field may contain line breaks, and keeps them.

    ``first_only`` gives the first line of each file or member, and reads it to the end to verify
    it; ``problem`` says why a file is damaged. Otherwise a damaged file fails the job.
    Complete files are kept in memory, so they must be under 2 GB.
    """
    walk_files = walked.walk_files

    def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return walk_files(batches, delimiter, first_only)

    scan = spark.read.format("binaryFile").load([spark_path(path) for path in ranks])
    read = scan.select(F.col("_metadata.file_path").alias("uri"), "content").mapInArrow(
        walk,  # pyright: ignore[reportArgumentType]
        "uri STRING, member STRING, block BIGINT, row BIGINT, line BIGINT, text STRING, problem STRING",
    )
    return add_ranks(read, scan.inputFiles(), ranks).select(*LINE_COLUMNS, "problem")


def scan_row() -> Column:
    """Number rows so that the number grows from row to row within one block of a file.

    It is the task's number and a counter in the task, so its value depends on how Spark packs
    blocks into tasks. Its order within a block does not: one task reads a block, from start to
    end. With the block's place in the file before it, (block, row) is the order of the file,
    however blocks are cut and packed (test: order does not depend on how files are split).
    """
    return F.monotonically_increasing_id()


def add_ranks(scan: DataFrame, uris: Sequence[str], ranks: Ranks) -> DataFrame:
    """Add ``file``, ``file_rank``, ``modified_ms`` and a null ``header`` to the scan by its column ``uri``.

    Spark percent-encodes by rules of its own (test: odd file names), and writes the same file as
    ``file:/`` here and ``file:///`` there.
    """
    rows = [(LOCAL.sub("/", uri), path_of(uri), *ranks[path_of(uri)]) for uri in uris]
    names = frame_of(scan.sparkSession, rows, _NAMES)
    bare = F.regexp_replace("uri", LOCAL.pattern, "/")
    found = scan.withColumn("uri", bare).join(F.broadcast(names), "uri")
    return found.select("*", F.lit(None).cast("string").alias("header"))
