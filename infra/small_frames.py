"""Frames of a few rows that the driver has, such as names of files and times of versions, and numbers of frames.

    frame_of(spark, [("/in/a.csv", 0)], pa.schema([("file", pa.string()), ("rank", pa.int32())]))

They are made of Arrow's columns, or of expressions alone. From rows of Python, and be there none, a driver in this
process would have its executors make them by a Python of their own (``tests/servers/test_cluster_struck.py``); a
Connect server would be asked for a schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from rivermeet.records.known_schemas import with_schema
from rivermeet.records.type_text import type_text


def frame_of(spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> DataFrame:
    """The rows, each with a value for every field of the schema, as a frame."""
    given = list(rows)
    if not given:
        return no_rows(spark, from_arrow_schema(schema))
    columns = [pa.array([row[n] for row in given], field.type) for n, field in enumerate(schema)]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=schema))


def numbers_of(rows: DataFrame, *numbers: Column) -> list[int]:
    """Aggregates of rows, in one request: for ``collect`` the engine is asked for a setting, too."""
    named = [number.cast("bigint").alias(f"n{at}") for at, number in enumerate(numbers)]
    schema = T.StructType([T.StructField(f"n{at}", T.LongType()) for at in range(len(named))])
    return [column[0].as_py() for column in with_schema(rows.agg(*named), schema).toArrow().columns]


def no_rows(spark: SparkSession, schema: T.StructType | str) -> DataFrame:
    """A frame of these columns without rows; they may be text such as ``"key STRING, offset BIGINT"``."""
    kind = f"STRUCT<{schema}>" if isinstance(schema, str) else type_text(schema)
    # The limit is the first thing that the optimizer looks at, and all above it goes. Of columns that are literals it
    # would copy every expression over them into every other one first, before it sees that there is no row: seven
    # columns of a source took minutes, and a heap (tests/infra/sources/test_empty_plans.py).
    one = spark.range(1).select(F.lit(None).cast(kind).alias("row"))
    return one.limit(0).select("row.*")
