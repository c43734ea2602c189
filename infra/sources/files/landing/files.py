"""Lands local text files in this process: each line with its file, its number and its text.

| file | who reads it |
|---|---|
| plain, gzip, members of zip; with all before it at most 256 MiB, unpacked | this process, with line numbers |
| beyond that, however small the gzip file is | the engine |
| at a URL | the engine |
| with a line of more than 256 MiB | nobody: it is a dead letter |

Both give the same rows and the same dead letters (``tests/infra/sources/test_both_readers.py``). A file is landed
completely or not at all: the lines of a file that turns out to be damaged are discarded. Held by
``tests/infra/sources/landing/test_files.py``.
"""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.sources.files.landing.lines import Lines, members, read_lines, unreadable
from rivermeet.infra.sources.files.line_formats import Place, Problems, Ranks
from rivermeet.infra.sources.landing_folder import LandingFolder
from rivermeet.infra.sources.places import LINE_COLUMNS
from rivermeet.pipelines import limits
from rivermeet.pipelines.errors import RivermeetError

DAMAGED = (OSError, EOFError, ValueError, RuntimeError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
"""Exceptions of reading a damaged file, by compression."""
_PLACE = pa.schema(
    [
        ("file_rank", pa.int32()),
        ("file", pa.string()),
        ("modified_ms", pa.int64()),
        ("member", pa.string()),
        ("block", pa.int64()),
        ("row", pa.int64()),
    ]
)
_LINE = pa.schema([("line", pa.int64()), ("text", pa.string()), ("header", pa.string())])
assert (*_PLACE.names, *_LINE.names) == LINE_COLUMNS

Shape = Callable[[Lines], Iterator[Sequence[pa.Array]]]
"""Builds the columns of the lines of a file or member: ``line``, ``text``, ``header``, and those of the format."""


class UnreadableError(RivermeetError):
    """Why a file, or a member of an archive, cannot be read."""

    remedy = "Correct the file and deliver it under another name."


class _BeyondError(Exception):
    """The epoch's files have more bytes than this process reads."""


@dataclass(frozen=True)
class LandedFiles:
    """The landed lines, the unreadable files, and those that are left to the engine."""

    folder: LandingFolder
    problems: Problems
    left: Ranks
    passed_over: frozenset[int]
    rows: int

    @property
    def count(self) -> int | None:
        """The number of rows of the files; None if the engine reads some of them."""
        return None if self.left else self.rows

    def read(self, spark: SparkSession) -> DataFrame:
        """`LINE_COLUMNS` and the format's columns."""
        rows = self.folder.read(spark)
        return rows.where(~F.col("file_rank").isin(*self.passed_over)) if self.passed_over else rows


def land(folder: Path, own: pa.Schema, ranks: Ranks, delimiter: str | None, shape: Shape) -> LandedFiles:
    """Land files in an empty folder, with the ``own`` columns of the format; FileNotFoundError if one is gone."""
    problems, left, spent = Problems(), dict[str, Place](), 0

    def spend(bytes: int) -> None:
        nonlocal spent
        spent += bytes
        if spent > limits.DRIVER_FILES_BYTES:
            raise _BeyondError

    def tables() -> Iterator[pa.Table]:
        for path, place in ranks.items():
            if not path.startswith("/") or spent + os.path.getsize(path) > limits.DRIVER_FILES_BYTES:
                left[path] = place
                continue
            try:
                for block, (member, stream) in enumerate(members(path, path)):
                    lines = read_lines(stream, delimiter, spend)
                    yield from _place(
                        landing.schema, shape(lines), (place.rank, path, place.modified_ms), member, block
                    )
            except _BeyondError:
                left[path] = place
            except FileNotFoundError:
                raise
            except UnreadableError as error:
                problems[path] = str(error)
            except DAMAGED as error:
                problems[path] = unreadable(path, error)

    landing = LandingFolder(folder, pa.schema([*_PLACE, *_LINE, *own]))
    rows = landing.write(tables())
    passed_over = frozenset(ranks[path].rank for path in {*problems, *left})
    return LandedFiles(landing, problems, left, passed_over, rows)


def _place(
    schema: pa.Schema, shaped: Iterator[Sequence[pa.Array]], file: tuple[Any, ...], member: str | None, block: int
) -> Iterator[pa.Table]:
    row = 0
    try:
        for columns in shaped:
            count = len(columns[0])
            each = [
                pa.repeat(pa.scalar(value, of.type), count)
                for value, of in zip((*file, member, block), _PLACE, strict=False)
            ]
            yield pa.table([*each, pa.array(np.arange(row, row + count)), *columns], schema)
            row += count
    except UnreadableError as error:
        raise UnreadableError(f"{member}: {error}" if member else str(error), file=file[1], member=member) from None
