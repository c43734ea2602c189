"""Frames of a few rows that the driver has: names of files, times of versions, marks.

    frame_of(spark, [("/in/a.csv", 0)], pa.schema([("file", pa.string()), ("rank", pa.int32())]))

They are made of Arrow's columns. From rows of Python a driver in this process would have its executors make them, by
a Python of their own (``tests/infra/engine/test_cluster_struck.py``); a Connect server would be asked for a schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> DataFrame:
    """The rows as a frame.

    Parameters
    ----------
    rows
        A value for each field of the schema.
    """
    given = list(rows)
    if not given:
        # Of an empty table of Arrow's PySpark infers a schema, and fails.
        return spark.createDataFrame([], from_arrow_schema(schema))
    columns = [pa.array([row[n] for row in given], field.type) for n, field in enumerate(schema)]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=schema))
