"""Lines of text files, in order, before anyone has looked into them.

Two readers give the same columns, `LINE_COLUMNS`: `split_lines` here lets Spark cut big files into
parts, and `sequential_lines` walks each file from its start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from infra.file_discovery import spark_path

if TYPE_CHECKING:
    pass

LINE_COLUMNS = ("file_rank", "file", "member", "block", "row", "line", "text")
"""``member`` is the archive's member or null, ``line`` the line's number where it is known."""

_LOCAL = re.compile("^file:/+")
_NEVER = "\u0001\u0002\u0003"
LONGEST_FIELD = 1000
"""Lines that one quoted field may go over; beyond, the opening quote is taken for a stray one."""

Ranks = Mapping[str, int]
"""Path of a file to its place in the order of files."""


def unclosed(delimiter: str) -> str:
    """Give the pattern, Java's and Python's, of a CSV line whose last field opens a quote for good.

    Counting quotes would not do: in ``7,5" pipe`` the quote is text (test: stray quotes).
    Possessive, so that a long line costs one pass.
    """
    d = re.escape(delimiter)
    field = rf'(?:"[^"]*+(?:""[^"]*+)*+"(?!")[^{d}]*+|[^"{d}][^{d}]*+)?+'
    return rf'^(?:{field}{d})*+"[^"]*+(?:""[^"]*+)*+(?![\s\S])'


def split_lines(spark: SparkSession, ranks: Ranks, header: str | None = None) -> DataFrame:
    """Let Spark cut plain or gzip files into lines, without blank ones and byte order marks.

    The CSV reader with a delimiter that does not occur and no quotes gives whole lines, and drops
    the header at the start of each file, where ``spark.read.text`` cannot tell it from an equal
    line further down (test: a row that equals the header). The column is named like the header
    because Spark logs a warning for every file where they differ.
    """
    name = (header or "text").replace("`", "``")
    scan = (
        spark.read.schema(f"`{name}` STRING")
        .options(sep=_NEVER, quote="", header=header is not None)
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
    return ranked(lines, scan.inputFiles(), ranks).select(*LINE_COLUMNS)


def scan_row() -> Column:
    """Number rows so that the number grows from row to row within one block of a file.

    It is the task's number and a counter in the task, so its value depends on how Spark packs
    blocks into tasks. Its order within a block does not: one task reads a block, from start to
    end. With the block's place in the file before it, (block, row) is the order of the file,
    however blocks are cut and packed (test: order does not depend on how files are split).
    """
    return F.monotonically_increasing_id()


def ranked(scan: DataFrame, uris: Sequence[str], ranks: Ranks) -> DataFrame:
    """Add ``file`` and ``file_rank`` to the scan by its column ``uri``.

    Spark percent-encodes by rules of its own (test: odd file names), and writes the same file as
    ``file:/`` here and ``file:///`` there.
    """
    places = [(_LOCAL.sub("/", uri), unquote(_LOCAL.sub("/", uri))) for uri in uris]
    rows = [(uri, path, ranks[path]) for uri, path in places]
    names = scan.sparkSession.createDataFrame(rows, "uri STRING, file STRING, file_rank INT")
    bare = F.regexp_replace("uri", _LOCAL.pattern, "/")
    return scan.withColumn("uri", bare).join(F.broadcast(names), "uri")
