"""Rows as they were read, in Parquet files of the epoch, which Spark reads: a chunk in memory, the rest on disk.

    home/landing/shop/orders/epoch-7-5f0c…/00000.parquet    50,000 rows, or 32 MiB of them

The folder and the chunks are as those of a topic (``infra/sources/landing/chunks.py``). Held by
``tests/infra/sources/postgres/test_reading.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from infra.small_frames import no_rows
from infra.sources.discovery import spark_path
from infra.sources.landing.chunks import in_chunks, new_folder
from infra.sources.postgres.copied import Line, copied_texts

ROWS, BYTES = 50_000, 32 << 20
"""Rows, and bytes of their values, of a chunk."""
_PLACE = (
    ("file_rank", pa.int32(), "INT"),
    ("block", pa.int64(), "BIGINT"),
    ("row", pa.int64(), "BIGINT"),
    ("op", pa.string(), "STRING"),
    ("lsn", pa.int64(), "BIGINT"),
    ("timestamp", pa.int64(), "BIGINT"),
    ("xid", pa.int64(), "BIGINT"),
    ("unchanged", pa.list_(pa.int32()), "ARRAY<INT>"),
    ("earlier_key", pa.list_(pa.string()), "ARRAY<STRING>"),
    ("branch", pa.int32(), "INT"),
)


class Landed(NamedTuple):
    """A row with its place in the order of the epoch, and the text of each declared column.

    ``unchanged`` are the columns, by number, that the log leaves out. Their values are those of the row that had
    ``earlier_key`` before (None: the row's own key); what came under that key since it was left is another ``branch``.
    """

    file_rank: int
    block: int
    row: int
    op: str
    lsn: int
    timestamp: int
    xid: int
    unchanged: Sequence[int] | None
    earlier_key: Sequence[str | None] | None
    branch: int
    texts: Sequence[str | None]


@dataclass(frozen=True)
class Landing:
    """The folder of one attempt at an epoch, for rows of so many columns."""

    folder: Path
    width: int

    @classmethod
    def anew(cls, node_folder: Path, epoch: int, width: int) -> Landing:
        """A new one; those of attempts before are removed with their files."""
        return cls(new_folder(node_folder, epoch), width)

    def write(self, rows: Iterable[Landed]) -> int:
        """Write rows in chunks; how many there were."""
        return self._write(self._chunks(rows))

    @property
    def _schema(self) -> pa.Schema:
        texts = [(f"c{at}", pa.string()) for at in range(self.width)]
        return pa.schema([*((name, kind) for name, kind, _ in _PLACE), *texts])

    def _chunks(self, rows: Iterable[Landed]) -> Iterator[pa.Table]:
        schema = self._schema
        for chunk in in_chunks(rows, ROWS, BYTES, _size):
            place = list(zip(*chunk, strict=True))
            texts = list(zip(*place.pop(), strict=True))
            yield pa.table([pa.array(c, field.type) for c, field in zip([*place, *texts], schema, strict=True)], schema)

    def write_snapshot(self, lines: Iterable[Line], lsn: int, timestamp: int) -> int:
        """Write a table as it stood at a position, given as CSV; how many rows there were."""
        return self._write(self._snapshot(lines, Landed(0, 0, 0, "r", lsn, timestamp, 0, None, None, 0, ())))

    def _snapshot(self, lines: Iterable[Line], each: Landed) -> Iterator[pa.Table]:
        before = 0
        for texts in copied_texts(lines, self.width, ROWS, BYTES):
            rows = texts.num_rows
            place = {
                name: pa.repeat(pa.scalar(value, kind), rows)
                for (name, kind, _), value in zip(_PLACE, each[:-1], strict=True)
            }
            place["row"] = pa.array(range(before, before + rows), pa.int64())
            yield pa.table([*place.values(), *texts.columns], self._schema)
            before += rows

    def _write(self, tables: Iterable[pa.Table]) -> int:
        count = 0
        for number, table in enumerate(tables):
            pq.write_table(table, self.folder / f"{number:05d}.parquet", compression="zstd")
            count += table.num_rows
        return count

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written."""
        return not any(self.folder.iterdir())

    def read(self, spark: SparkSession) -> DataFrame:
        """All that was written."""
        names = [f"{name} {kind}" for name, _, kind in _PLACE] + [f"c{at} STRING" for at in range(self.width)]
        ddl = ", ".join(names)
        files = sorted(str(file) for file in self.folder.iterdir())
        if not files:
            return no_rows(spark, ddl)
        return spark.read.schema(ddl).parquet(*[spark_path(file) for file in files])


def _size(row: Landed) -> int:
    return sum(len(text) for text in row.texts if text)
