"""Tables that consist only of the files that their log lists: Spark reads the files, without a Delta job.

Delta determines the files of each scan of each plan by jobs on its log, a tenth of the time of a run of ten small
nodes. Without Spark, a log is read in 5 ms. Tables with deletion vectors, column mapping or other reader features are
left to Delta. Held by ``tests/infra/delta/test_changelog_files.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from rivermeet.infra.delta.lines import Chosen, open_table
from rivermeet.pipelines import limits
from rivermeet.records.known_schemas import with_schema

PATTERN = re.compile(r"[*?\[\]{}\\]")
"""Characters of a path that Spark interprets as a pattern."""


def is_plain(table: DeltaTable) -> bool:
    """Whether a table's rows are exactly the rows of its files, with the same column names."""
    return table.protocol().min_reader_version == 1 and not table.metadata().partition_columns


def schema_of(table: DeltaTable) -> StructType:
    """Columns of a table in Spark's types, without a request to the engine: a tenth of a second per frame."""
    return StructType.fromJson(json.loads(table.schema().to_json()))


def fields_at(path: str, column: str, version: int | None = None) -> Sequence[StructField]:
    """Fields of a STRUCT column of the table at a path."""
    kind = schema_at(path, version)[column].dataType
    assert isinstance(kind, StructType), f"{column} of {path} is a STRUCT"
    return kind.fields


def schema_at(path: str, version: int | None = None) -> StructType:
    """The same for the table at a path; by default for its newest version."""
    table = open_table(path, version)
    assert table is not None, f"there is a table at {path}"
    return schema_of(table)


def read_files(
    spark: SparkSession, path: str, version: int | None, chosen: Chosen = lambda files: files
) -> DataFrame | None:
    """Rows of the ``chosen`` files of a table; None if Delta has to read them."""
    table = open_table(path, version)
    if table is None or not is_plain(table) or PATTERN.search(path):
        return None
    files = pa.table(table.get_add_actions(flatten=True))
    names = chosen(files)["path"].to_pylist() or files["path"].to_pylist()[:1]
    if not 0 < len(names) <= limits.NAMED_FILES:
        return None
    schema = schema_of(table)
    rows = spark.read.schema(schema).parquet(*(f"{path.rstrip('/')}/{unquote(name)}" for name in names))
    return with_schema(rows, schema)
