"""From the versions of a plan to rows in declared types, each with its place in the order of the epoch.

| rows | ``file_rank`` | ``block`` | ``row`` |
|---|---|---|---|
| retried dead letters | -1 | 0 | their number |
| a complete version | 0 | 0 | ``order``, file, row of the file, or the row as text |
| rows that version 4 adds | 1 | 4 * 4 + 2 | ``order``, file, row of the file |
| changes of version 4: deletes | 1 | 4 * 4 + 0 | ``order``, the row as text |
| changes of version 4: old images | 1 | 4 * 4 + 1 | ``order``, the row as text |
| changes of version 4: inserts, new images | 1 | 4 * 4 + 2 | ``order``, the row as text |

The order is total: two rows of a feed with the same text are the same record. Files are read directly, with the values
of their partition columns from the log; a feed, and a complete version with deletion vectors, column mapping or
partitions, by Delta. A struct has the declared fields. Held by ``tests/infra/sources/delta/test_append.py`` and
``tests/infra/sources/delta/test_feed.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermeet.infra import small_frames
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.sources.declared_types import declare, no_text
from rivermeet.infra.sources.delta.log import commits, locate
from rivermeet.infra.sources.delta.table import is_list_of_files, snapshot_files
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.infra.sources.files.parquet import CLOCKS
from rivermeet.infra.sources.places import path_of, spark_path
from rivermeet.pipelines import DeltaTable
from rivermeet.pipelines.expressions import quote
from rivermeet.records.known_schemas import with_schema
from rivermeet.records.type_text import kind_of, type_text

DELETE, OLD, NEW = range(3)
"""What a row of a version is to its key, in this order; `KINDS` of them to a version."""
KINDS = 4
AGAIN, WHOLE, CHANGES = -1, 0, 1
"""``file_rank`` of letters, of a version that is read whole, and of changes."""
_KIND = {"delete": DELETE, "update_preimage": OLD, "insert": NEW, "update_postimage": NEW}
_OF_COMMIT = ("_change_type", "_commit_version", "_commit_timestamp")
_LOCAL = re.compile("^file:/+")
_TIMES = pa.schema([("version", pa.int64()), ("time", pa.int64())])
_FILES = pa.schema([("uri", pa.string()), ("at", pa.int32()), *_TIMES, ("parts", pa.list_(pa.string()))])


def whole_version(spark: SparkSession, table: DeltaTable, planned: VersionRange) -> DataFrame:
    """Rows of the version that is read whole, as `as_declared` gives them."""
    version = planned.snapshot
    assert version is not None
    time = _times(planned.path, version, version)[version]
    paths = [locate(planned.path, file.path) for file in snapshot_files(planned.path, version)]
    files = {path: (at, version, time, {}) for at, path in enumerate(paths)}
    listed = bool(files) and is_list_of_files(planned.path, version)
    if listed:
        scan = _scan_files(spark, _schema(planned.path, version), files)
    else:
        scan = spark.read.format("delta").option("versionAsOf", version).load(planned.path)
    found = _by_file(scan, files, {}, numbered=listed)
    return _cast_declared(found, scan.schema, table, planned, F.lit(WHOLE), F.lit(0), F.lit("insert"))


def read_added(spark: SparkSession, table: DeltaTable, planned: VersionRange) -> DataFrame | None:
    """Rows that the versions add, as `as_declared` gives them; None where there are none."""
    found = [c for c in commits(planned.path, planned.start, planned.end) if c.version not in planned.passed]
    files = {
        locate(planned.path, file.path): (at, commit.version, commit.timestamp, dict(file.partition))
        for commit in found
        for at, file in enumerate(sorted(commit.added, key=lambda file: file.path))
    }
    if not files:
        return None
    schema = _schema(planned.path, planned.end)
    of_partition = {f.name: f.dataType for f in schema if any(f.name in values for *_, values in files.values())}
    of_files = T.StructType([field for field in schema if field.name not in of_partition])
    placed = _by_file(_scan_files(spark, of_files, files), files, of_partition)
    block = F.col("version") * KINDS + NEW
    kind = T.StructType([*of_files, *(T.StructField(name, of) for name, of in of_partition.items())])
    return _cast_declared(placed, kind, table, planned, F.lit(CHANGES), block, F.lit("insert"))


def changes(spark: SparkSession, table: DeltaTable, planned: VersionRange) -> DataFrame | None:
    """Changes of the versions, as `as_declared` gives them; None where there are no versions."""
    if planned.end < planned.start:
        return None
    reader = spark.read.format("delta").option("readChangeFeed", True).option("ignoreMissingFiles", False)
    scan = reader.option("startingVersion", planned.start).option("endingVersion", planned.end).load(planned.path)
    times = small_frames.frame_of(spark, sorted(_times(planned.path, planned.start, planned.end).items()), _TIMES)
    data = T.StructType([field for field in scan.schema if field.name not in _OF_COMMIT])
    named = scan.select(
        F.struct(*[F.col(quote(name)) for name in data.names]).alias("data"),
        F.col("_change_type").alias("change"),
        F.col("_commit_version").alias("version"),
        F.lit(None).cast("int").alias("at"),
        F.lit(None).cast("bigint").alias("index"),
    )
    kind = F.coalesce(*[F.when(F.col("change") == name, F.lit(kind)) for name, kind in _KIND.items()])
    placed = named.join(F.broadcast(times), "version")
    block = F.col("version") * KINDS + kind
    return _cast_declared(placed, data, table, planned, F.lit(CHANGES), block, F.col("change"))


def without_needless(parsed: DataFrame) -> DataFrame:
    """Exclude old images of keys that have a new row in their version; ``parsed`` is as `to_records` gives it.

    | version 5 | records |
    |---|---|
    | (a, 1) becomes (a, 2) | a: 2. The new image is sufficient |
    | (a, 1) becomes (b, 1) | a: a tombstone; b: 1 |
    | (a, 1) and (b, 2) swap their keys | a: 2; b: 1 |
    | (a, 1) becomes (a, 0), which ``where`` excludes | a: a tombstone |
    | (a, 1) becomes (a, "x"), which is not a record | none, and a dead letter: a is unchanged |
    | (a, 1) is deleted, and (a, 2) inserted | a: a tombstone; a: 2. Deletes come first |

    An old image is never a dead letter: if it is invalid, it was one when it was new.
    """
    block = F.col("sequence.block")
    kind, version = F.pmod(block, F.lit(KINDS)), F.floor(block / KINDS)
    is_new = (kind == NEW) & ~F.col("excluded")
    of_key = Window.partitionBy("version_", "key")
    there = F.max(is_new).over(of_key)
    marked = parsed.select("*", version.alias("version_")).select("*", there.alias("there_"))
    old = kind == OLD
    return marked.withColumns(
        {
            "excluded": F.col("excluded") | (old & (F.col("there_") | F.isnotnull("reason"))),
            "reason": F.when(~old, F.col("reason")),
        }
    ).drop("version_", "there_")


def no_rows(spark: SparkSession, table: DeltaTable, planned: VersionRange) -> DataFrame:
    """No row, as `as_declared` gives it."""
    data = _schema(planned.path, planned.end)
    known = [("at", T.IntegerType()), ("version", T.LongType()), ("time", T.LongType()), ("index", T.LongType())]
    kind = T.StructType([T.StructField("data", data), *(T.StructField(name, of) for name, of in known)])
    nothing = small_frames.no_rows(spark, kind)
    return _cast_declared(nothing, data, table, planned, F.lit(WHOLE), F.lit(0), F.lit("insert"))


def _scan_files(spark: SparkSession, schema: T.StructType, files: Iterable[str]) -> DataFrame:
    """Rows of files, with ``row_index``; Delta's own scan has no such column."""
    reader = spark.read.schema(schema).option("recursiveFileLookup", True).option("ignoreMissingFiles", False)
    return with_schema(reader.parquet(*[spark_path(path) for path in files]), schema)


def _by_file(
    scan: DataFrame,
    files: Mapping[str, tuple[int, int, int, Mapping[str, str | None]]],
    of_partition: Mapping[str, T.DataType],
    numbered: bool = True,
) -> DataFrame:
    """Rows with the properties of their files: number, version, time, and values of partition columns.

    Spark percent-encodes paths by rules of its own, and writes the same file as ``file:/`` here and ``file:///`` there.
    """
    rows = [
        (_LOCAL.sub("/", uri), *files[path_of(uri)][:3], [files[path_of(uri)][3].get(name) for name in of_partition])
        for uri in scan.inputFiles()
    ]
    known = small_frames.frame_of(scan.sparkSession, rows, _FILES)
    data = [
        *(F.col("row").getField(name).alias(name) for name in scan.columns),
        *(F.col("parts")[i].try_cast(kind).alias(name) for i, (name, kind) in enumerate(of_partition.items())),
    ]
    index = F.col("_metadata.row_index") if numbered else F.lit(None).cast("bigint")
    uri = F.regexp_replace(F.col("_metadata.file_path"), _LOCAL.pattern, "/")
    found = scan.select(
        F.struct(*[F.col(quote(name)) for name in scan.columns]).alias("row"), uri.alias("uri"), index.alias("index")
    )
    placed = found.join(F.broadcast(known), "uri")
    return placed.select(F.struct(*data).alias("data"), "at", "version", "time", "index")


def _cast_declared(
    rows: DataFrame,
    kind: T.StructType,
    table: DeltaTable,
    planned: VersionRange,
    rank: Column,
    block: Column,
    change: Column,
) -> DataFrame:
    """Rows in declared types, of ``data`` (of that ``kind``), ``at``, ``index``, ``version`` and ``time``."""
    text = F.to_json("data", CLOCKS)
    order = [_field(F.col("data"), kind, name).cast(table.schema[name]) for name in table.order]
    return declare(
        rows,
        table.schema,
        raw_columns(table, kind, "data", F.col("version"), F.col("time"), change),
        no_text(),
        file_rank=rank.cast("int"),
        file=F.lit(planned.path),
        modified_ms=F.col("time"),
        member=no_text(),
        block=block.cast("bigint"),
        row=place(order, F.col("at"), F.col("index"), F.when(F.isnull("index"), text)),
        line=F.col("version"),
        text=text,
        header=F.to_json(F.struct("version", "time", change.alias("change"), F.lit(kind.json()).alias("schema"))),
    )


def place(order: Sequence[Column], file: Column, index: Column, text: Column) -> Column:
    """The place of a row within its block."""
    parts = [column.alias(f"o{i}") for i, column in enumerate(order)]
    return F.struct(*parts, file.cast("int").alias("file"), index.cast("bigint").alias("index"), text.alias("text"))


def raw_columns(
    table: DeltaTable, kind: T.StructType, data: str, version: Column, time: Column, change: Column
) -> list[Column]:
    """The declared columns of a row, in their own types, and the columns of its commit."""
    gone = change.isin("delete", "update_preimage")
    values = [_field(F.col(data), kind, name, table.schema[name]) for name in table.value_columns]
    return [*values, version.cast("bigint"), time.cast("bigint"), change, gone]


def _field(data: Column, kind: T.StructType, name: str, declared: str | None = None) -> Column:
    """A column of a row by its name, ignoring case."""
    found = next(field for field in kind if field.name.lower() == name.lower())
    column = data.getField(found.name)
    return column if declared is None else _fit_struct(column, found.dataType, kind_of(declared))


def _fit_struct(column: Column, kind: T.DataType, wanted: T.DataType) -> Column:
    """A struct with only the declared fields."""
    if not isinstance(kind, T.StructType) or not isinstance(wanted, T.StructType):
        return column
    there = {field.name.lower(): field for field in kind}
    fields = [
        _fit_struct(column.getField(there[w.name.lower()].name), there[w.name.lower()].dataType, w.dataType).alias(
            w.name
        )
        if w.name.lower() in there
        else F.lit(None).cast(type_text(w.dataType)).alias(w.name)
        for w in wanted
    ]
    return F.when(F.isnotnull(column), F.struct(*fields))


def _schema(path: str, version: int) -> T.StructType:
    table = open_table(path, version)
    assert table is not None
    # As Spark reads it: any value may be null.
    said = re.sub(r'("(?:nullable|containsNull|valueContainsNull)":) ?false', r"\1true", table.schema().to_json())
    return T.StructType.fromJson(json.loads(said))


def _times(path: str, start: int, end: int) -> Mapping[int, int]:
    return {commit.version: commit.timestamp for commit in commits(path, start, end)}
