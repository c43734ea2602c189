"""Records as they were consumed, in Parquet files of the epoch, which Spark reads: a chunk in memory, the rest on disk.

    home/landing/shop/orders/epoch-7-5f0c…/00000.parquet    20,000 records or more, or 32 MiB of them
    home/landing/shop/orders/epoch-7-5f0c…/00001.parquet    what came after them
    home/landing/shop/orders/epoch-6-a41e…/                 of an epoch that is done, or of an attempt that died:
                                                            removed when the node's next one lands

A topic that is compacted may give fewer records when it is asked again, and an epoch must not see both: what landed is
what it computes from, to its end. Held by ``tests/infra/sources/kafka/test_reading.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from infra.small_frames import no_rows
from infra.sources.discovery import spark_path
from infra.sources.landing.chunks import new_folder

ROWS, BYTES = 20_000, 32 << 20
"""Records, or bytes, that a file is written of."""
SCHEMA = pa.schema(
    [
        ("file_rank", pa.int32()),
        ("block", pa.int64()),
        ("row", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("key_text", pa.string()),
        ("value_text", pa.string()),
        ("key_schema", pa.int64()),
        ("value_schema", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("problem", pa.string()),
    ]
)
DDL = (
    "file_rank INT, block BIGINT, row BIGINT, partition INT, offset BIGINT, timestamp BIGINT, "
    "key BINARY, value BINARY, key_text STRING, value_text STRING, key_schema BIGINT, value_schema BIGINT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, problem STRING"
)
"""The same, as Spark writes it."""


class Payloads(NamedTuple):
    """Records as they were consumed, by column: timestamps in ms, headers as ``key`` and ``value``."""

    partition: Sequence[int]
    offset: Sequence[int]
    timestamp: Sequence[int]
    key: Sequence[bytes | None]
    value: Sequence[bytes | None]
    headers: Sequence[list[dict[str, Any]] | None]


Lands = Callable[[int, Sequence[int], Sequence[int], Payloads], pa.Table]
"""Makes rows of ``SCHEMA`` of a ``file_rank``, the ``block`` and ``row`` of each record, and the records."""


@dataclass(frozen=True)
class Landing:
    """The folder of one attempt at an epoch."""

    folder: Path

    @classmethod
    def anew(cls, node_folder: Path, epoch: int) -> Landing:
        """A new one; those of attempts before are removed with their files."""
        return cls(new_folder(node_folder, epoch))

    def write(self, tables: Iterable[pa.Table]) -> int:
        """Write records, of the columns of ``SCHEMA``; how many there were."""
        count, files = 0, 0
        held: list[pa.Table] = []
        for table in tables:
            held.append(table)
            if sum(t.num_rows for t in held) >= ROWS or sum(t.nbytes for t in held) >= BYTES:
                files, held = self._written(held, files), []
            count += table.num_rows
        self._written(held, files)
        return count

    def _written(self, tables: Sequence[pa.Table], files: int) -> int:
        if any(table.num_rows for table in tables):
            pq.write_table(pa.concat_tables(tables), self.folder / f"{files:05d}.parquet", compression="zstd")
        return files + 1

    def write_frame(self, records: DataFrame) -> None:
        """Let the engine write records, once: what reads them does not ask the broker again."""
        records.write.mode("append").parquet(spark_path(str(self.folder)))

    def read(self, spark: SparkSession) -> DataFrame:
        """All that was written."""
        files = sorted(str(file) for file in self.folder.glob("*.parquet"))
        if not files:
            return no_rows(spark, DDL)
        return spark.read.schema(DDL).parquet(*[spark_path(file) for file in files])
