"""Rows as they were read, in Parquet files of the epoch for Spark: two chunks in memory, the rest on disk.

    home/landing/shop/orders/epoch-7-5f0c…/00000.parquet    20,000 rows, or 32 MiB of them
    home/landing/shop/orders/epoch-7-5f0c…/00001.parquet    the following rows
    home/landing/shop/orders/epoch-6-a41e…/                 of a finished epoch, or of a killed attempt:
                                                            removed when the node's next one lands

An epoch is computed only from landed rows: a compacted topic may return fewer records when it is read again, and a file
may be gone. A chunk is written while the next one is read. Files are small because Spark gives its tasks whole files:
with 60,000 rows in each, one of two tasks had three of five. Held by ``tests/infra/sources/kafka/test_reading.py``,
``tests/infra/sources/postgres/test_reading.py`` and ``tests/infra/sources/landing/test_files.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from rivermeet.infra.small_frames import no_rows
from rivermeet.infra.sources.places import spark_path
from rivermeet.records.type_text import quote, type_text

_Row = TypeVar("_Row")
ROWS, BYTES = 20_000, 32 << 20
"""Rows, or bytes, per file."""


class LandingFolder:
    """The folder of one attempt at an epoch, for rows of one schema.

    Attributes
    ----------
    rows
        How many were written.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder, self.schema, self.rows = folder, schema, 0

    @classmethod
    def create(cls, node_folder: Path, epoch: int, schema: pa.Schema) -> LandingFolder:
        """A new folder below the node's; those of earlier attempts are removed."""
        return cls(new_folder(node_folder, epoch), schema)

    def write(self, tables: Iterable[pa.Table]) -> int:
        """Write rows with the columns of the schema; return their number."""
        written: Future[int] | None = None
        with ThreadPoolExecutor(1) as writer:
            for rows in _chunks(tables):
                files = written.result() if written is not None else 0
                written = writer.submit(self._write, rows, files)
                self.rows += len(rows)
        if written is not None:
            written.result()
        return self.rows

    def _write(self, rows: pa.Table, files: int) -> int:
        for start in range(0, len(rows), ROWS):
            file = self.folder / f"{files:05d}.parquet"
            pq.write_table(rows.slice(start, ROWS), file, compression="zstd", compression_level=1)
            files += 1
        return files

    def read(self, spark: SparkSession) -> DataFrame:
        """All rows that were written."""
        columns = from_arrow_schema(self.schema).fields
        ddl = ", ".join(f"{quote(column.name)} {type_text(column.dataType)}" for column in columns)
        files = sorted(str(file) for file in self.folder.glob("*.parquet"))
        if not files:
            return no_rows(spark, ddl)
        return spark.read.schema(ddl).parquet(*[spark_path(file) for file in files])


def _chunks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, with a file's rows or bytes in each table but the last."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(t.num_rows for t in held) >= ROWS or sum(t.nbytes for t in held) >= BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def new_folder(node_folder: Path, epoch: int) -> Path:
    """A new folder; those of earlier attempts are removed."""
    shutil.rmtree(node_folder, ignore_errors=True)
    folder = node_folder / f"epoch-{epoch}-{uuid4().hex}"
    folder.mkdir(parents=True)
    return folder


def in_chunks(rows: Iterable[_Row], most: int, most_bytes: int, size: Callable[[_Row], int]) -> Iterator[list[_Row]]:
    """Chunks of rows, limited by number and by bytes; ``size`` estimates those of a row."""
    chunk: list[_Row] = []
    held = 0
    for row in rows:
        chunk.append(row)
        held += size(row)
        if len(chunk) >= most or held >= most_bytes:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk
