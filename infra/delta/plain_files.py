"""Tables that are no more than the files that their log lists: Spark reads these, without a job of Delta's.

Delta looks for the files of each scan of each plan by jobs on its log, a tenth of what a run of ten small nodes takes.
A log is read in 5 ms without Spark. What is more than a list of files is left to Delta: deletion vectors, column
mapping, other features of readers. Held by ``tests/infra/delta/test_changelog_files.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from rivermeet.infra.delta.lines import opened
from rivermeet.records.known_schemas import with_schema

if TYPE_CHECKING:
    from deltalake import DeltaTable

MOST = 500
"""Up to so many files are named to Spark, which looks for each of them."""
PATTERN = re.compile(r"[*?\[\]{}\\]")
"""Characters of a path that Spark would take for a pattern."""


def is_plain(table: DeltaTable) -> bool:
    """Whether a table's rows are all that its files have, under their own names."""
    return table.protocol().min_reader_version == 1 and not table.metadata().partition_columns


def schema_of(table: DeltaTable) -> StructType:
    """Columns of a table as Spark has them, without asking the engine: a tenth of a second for each frame."""
    return StructType.fromJson(json.loads(table.schema().to_json()))


def fields_at(path: str, column: str, version: int | None = None) -> Sequence[StructField]:
    """Fields of a STRUCT column of the table at a path."""
    kind = schema_at(path, version)[column].dataType
    assert isinstance(kind, StructType), f"{column} of {path} is a STRUCT"
    return kind.fields


def schema_at(path: str, version: int | None = None) -> StructType:
    """The same of the table at a path; of the newest version where none is given."""
    table = opened(path, version)
    assert table is not None, f"there is a table at {path}"
    return schema_of(table)


def listed(
    spark: SparkSession, path: str, version: int | None, chosen: Callable[[pa.Table], pa.Table] = lambda files: files
) -> DataFrame | None:
    """Rows of the files of a table that are ``chosen``; None where Delta has to read them.

    Parameters
    ----------
    chosen
        Leaves those that are wanted of the files, one a row: ``path``, and ``min.COLUMN`` and ``max.COLUMN`` where the
        table has statistics of them.
    """
    table = opened(path, version)
    if table is None or not is_plain(table) or PATTERN.search(path):
        return None
    files = pa.table(table.get_add_actions(flatten=True))
    names = chosen(files)["path"].to_pylist() or files["path"].to_pylist()[:1]
    if not 0 < len(names) <= MOST:
        return None
    schema = schema_of(table)
    rows = spark.read.schema(schema).parquet(*(f"{path.rstrip('/')}/{unquote(name)}" for name in names))
    return with_schema(rows, schema)
