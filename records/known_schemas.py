"""Schemas that are known without the engine: of a changelog from its log, of derived frames from our code.

A frame on Spark Connect is a plan. To determine its columns, the engine analyses the whole plan, a round trip each
time. PySpark caches the schema with the frame, and copies it to frames with the same columns (``where``, ``distinct``).
If the cache is filled beforehand, no request is made. With a driver in this process, nothing is filled in.

    a run of ten small nodes     85 to 96 analyses before, 1 now

Held by ``tests/infra/epochs/test_known_schemas.py``, which compares the cached schemas with those of the engine, and
``tests/infra/epochs/test_requests.py``, which counts.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

_KEPT = "_cached_schema"


def with_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame, with its schema cached, so that the engine is not asked for it."""
    if hasattr(frame, _KEPT):
        setattr(frame, _KEPT, schema)
    return frame


def like(frame: DataFrame, other: DataFrame, *more: StructField) -> DataFrame:
    """The frame, with the cached schema of another one, if there is one, and ``more`` columns."""
    known: StructType | None = getattr(other, _KEPT, None)
    return frame if known is None else with_schema(frame, StructType([*known.fields, *more]))
