"""Lands consumed records of a topic (``infra/sources/landing_folder.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from rivermeet.infra.sources.landing_folder import LandingFolder, new_folder
from rivermeet.infra.sources.places import spark_path

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


class Payloads(NamedTuple):
    """Records as they were consumed, by column: timestamps in ms, headers as ``key`` and ``value``."""

    partition: Sequence[int]
    offset: Sequence[int]
    timestamp: Sequence[int]
    key: Sequence[bytes | None]
    value: Sequence[bytes | None]
    headers: Sequence[list[dict[str, Any]] | None]


Lands = Callable[[int, Sequence[int], Sequence[int], Payloads], pa.Table]
"""Builds rows of ``SCHEMA`` from a ``file_rank``, the ``block`` and ``row`` of each record, and the records."""


class Landing(LandingFolder):
    """The folder of one attempt at an epoch."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SCHEMA)

    @classmethod
    def create(cls, node_folder: Path, epoch: int) -> Landing:
        """A new folder; those of earlier attempts are removed."""
        return cls(new_folder(node_folder, epoch))

    def write_frame(self, records: DataFrame) -> None:
        """Write records with the engine, once, so that the broker is not read again."""
        records.write.mode("append").parquet(spark_path(str(self.folder)))
