"""Schemas that are known without the engine: of a changelog by its log, of what is made of it by our code.

A frame on Spark Connect is a plan; to say its columns, the engine analyses all that it is made of, a round trip each
time. PySpark keeps the answer with the frame, and gives it on to what has the same columns (``where``, ``distinct``):
put there beforehand, the question is not asked. A session with a driver of its own asks that, and nothing is put.

    a run of ten small nodes     85 to 96 analyses before, 20 now

Held by ``tests/infra/epochs/test_known_schemas.py``, which compares what is put with what the engine says, and
``tests/infra/epochs/test_requests.py``, which counts.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

_KEPT = "_cached_schema"


def with_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame, that says it has this schema without asking the engine."""
    if hasattr(frame, _KEPT):
        setattr(frame, _KEPT, schema)
    return frame


def like(frame: DataFrame, other: DataFrame, *more: StructField) -> DataFrame:
    """The frame, with the schema of another one, if that is known, and ``more`` columns than that has."""
    known: StructType | None = getattr(other, _KEPT, None)
    return frame if known is None else with_schema(frame, StructType([*known.fields, *more]))
