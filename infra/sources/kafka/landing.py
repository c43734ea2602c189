"""Records as they were consumed, in Parquet files of the epoch, which Spark reads: a chunk in memory, the rest on disk.

    home/landing/shop/orders/epoch-7-5f0c…/00000.parquet    20,000 records, or 32 MiB of them
    home/landing/shop/orders/epoch-7-5f0c…/00001.parquet    what came after them
    home/landing/shop/orders/epoch-6-a41e…/                 of an epoch that is done, or of an attempt that died:
                                                            removed when the node's next one lands

A topic that is compacted may give fewer records when it is asked again, and an epoch must not see both: what landed is
what it computes from, to its end. Held by ``tests/infra/sources/kafka/test_reading.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from infra.sources.discovery import spark_path
from infra.sources.landing.chunks import in_chunks, new_folder

ROWS, BYTES = 20_000, 32 << 20
"""Records, and bytes of keys and values, of a chunk."""
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


class Landed(NamedTuple):
    """A record with its place in the order of the epoch, its texts if it has any, and why it cannot be decoded."""

    file_rank: int
    block: int
    row: int
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    key_text: str | None
    value_text: str | None
    key_schema: int | None
    value_schema: int | None
    headers: list[dict[str, Any]] | None
    problem: str | None

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return len(self.key or b"") + len(self.value or b"") + len(self.key_text or "") + len(self.value_text or "")


@dataclass(frozen=True)
class Landing:
    """The folder of one attempt at an epoch."""

    folder: Path

    @classmethod
    def anew(cls, node_folder: Path, epoch: int) -> Landing:
        """A new one; those of attempts before are removed with their files."""
        return cls(new_folder(node_folder, epoch))

    def write(self, records: Iterable[Landed]) -> int:
        """Write records in chunks; how many there were."""
        count = 0
        for chunk in in_chunks(records, ROWS, BYTES, lambda record: record.size):
            columns = [
                pa.array(column, field.type) for column, field in zip(zip(*chunk, strict=True), SCHEMA, strict=True)
            ]
            number = len(list(self.folder.iterdir()))
            pq.write_table(pa.table(columns, SCHEMA), self.folder / f"{number:05d}.parquet", compression="zstd")
            count += len(chunk)
        return count

    def write_frame(self, records: DataFrame) -> None:
        """Let the engine write records, once: what reads them does not ask the broker again."""
        records.write.mode("append").parquet(spark_path(str(self.folder)))

    def read(self, spark: SparkSession) -> DataFrame:
        """All that was written."""
        files = sorted(str(file) for file in self.folder.glob("*.parquet"))
        if not files:
            return spark.createDataFrame([], DDL)
        return spark.read.schema(DDL).parquet(*[spark_path(file) for file in files])
