"""The record shape, and the fold of a changelog into its table.

A changelog is append-only: ``key`` (STRUCT), ``value`` (STRUCT, NULL is a tombstone), ``timestamp`` (BIGINT, event
time in ms), ``partition`` (INT), ``offset`` (BIGINT, dense per partition). Its table has, for each key, the last
record by offset, and no row where that record is a tombstone:

    offset  key  value          table after the fold
    0       a    {n: 1}
    1       b    {n: 2}         a  n=3  (offset 2)
    2       a    {n: 3}
    3       b    NULL

Source: wiki page "Early joins" (a table is the fold of its changelog).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from rivermeet.records.type_text import quote, type_text

RECORD = ("key", "value", "timestamp", "partition", "offset")
"""Columns that every changelog has; a committed one also has ``epoch``."""


def field_names(frame: DataFrame, column: str) -> list[str]:
    """Names of the fields of a STRUCT column."""
    kind = frame.schema[column].dataType
    if not isinstance(kind, StructType):
        raise TypeError(f"column '{column}' is {kind.simpleString()}, not a struct")
    return kind.fieldNames()


def last_per_key(changelog: DataFrame) -> DataFrame:
    """The last record of each key, tombstones included; columns `RECORD`. A table has no row without a key.

    A key is in one partition, so its highest offset is its last record. A key whose row has ended may start again
    in another partition (a topic gained partitions), at a lower offset: of two epochs the later one comes last.

    Parameters
    ----------
    changelog
        Columns `RECORD` and ``epoch``.
    """
    last = F.max_by(F.struct("value", "timestamp", "partition", "offset"), F.struct("epoch", "offset")).alias("last")
    # Spark sorts by what it groups, and compares keys only where the hashes before them are equal.
    keyed = changelog.where(F.col("key").isNotNull()).groupBy(F.xxhash64("key"), "key")
    return keyed.agg(last).select("key", "last.*")


def as_of(table: DataFrame | None, tail: DataFrame, few: bool = False) -> DataFrame:
    """Live rows of a table: its fold so far (columns `RECORD`, or None), and the changelog's tail since then.

    Parameters
    ----------
    tail
        Columns `RECORD` and ``epoch``.
    few
        Whether the tail has so few records that their keys can be broadcast: then the table is scanned, not sorted.
    """
    rows = tail.select(*RECORD, "epoch")
    if table is not None:
        if few:
            changed = rows.where(F.col("key").isNotNull()).select(F.col("key").alias("changed")).distinct()
            untouched = table.select(*RECORD).join(F.broadcast(changed), same_key("key", "changed"), "left_anti")
            return untouched.unionByName(as_of(None, rows))
        rows = table.select(*RECORD, F.lit(0).cast("bigint").alias("epoch")).unionByName(rows)
    return last_per_key(rows).where(F.col("value").isNotNull())


def same_key(one: str, other: str) -> Column:
    """Whether two key STRUCTs are the same, as the condition of a join that scans a large table for few keys.

    Spark looks a struct up as a row, and a number as a number: of ten million rows, in three quarters of the time.
    If ``one = other`` were part of the condition, it would look that up, too. A NULL part equals another one.
    """
    left, right = F.col(one), F.col(other)
    return (F.xxhash64(left) == F.xxhash64(right)) & (left >= right) & (left <= right)


def flatten(rows: DataFrame) -> DataFrame:
    """Records as the columns of a folded table: those of key and value, ``_timestamp``, ``_partition``, ``_offset``.

    ``_deleted`` marks tombstones; a folded table does not have it.
    """
    return rows.select(
        "key.*",
        "value.*",
        F.col("timestamp").alias("_timestamp"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("value").isNull().alias("_deleted"),
    )


def flat_schema(changelog: StructType) -> StructType:
    """The schema of a folded table, derived from that of its changelog."""
    key, value = changelog["key"].dataType, changelog["value"].dataType
    assert isinstance(key, StructType) and isinstance(value, StructType)
    own = [StructField(f"_{name}", changelog[name].dataType) for name in ("timestamp", "partition", "offset")]
    return StructType([*key.fields, *value.fields, *own])


def table_rows(changelog: DataFrame) -> DataFrame:
    """The last record of each key as columns of the folded table, tombstones marked by ``_deleted``."""
    return flatten(last_per_key(changelog))


def unflatten(table: DataFrame, key: StructType, value: StructType, own: StructType | None = None) -> DataFrame:
    """Rows of a folded table as records whose key and value have these types; the inverse of `flatten`.

    A table that was folded before its changelog gained a column has NULL there; before a type was widened, the narrower
    type.

    Parameters
    ----------
    own
        Schema of the table, if it is known without a request to the engine.
    """
    kinds = {field.name: field.dataType for field in (own or table.schema).fields}

    def pack(struct: StructType) -> Column:
        return F.struct(*(_as(kinds.get(field.name), field).alias(field.name) for field in struct.fields))

    return table.select(
        pack(key).alias("key"),
        pack(value).alias("value"),
        F.col("_timestamp").alias("timestamp"),
        F.col("_partition").alias("partition"),
        F.col("_offset").alias("offset"),
    )


def _as(own: DataType | None, field: StructField) -> Column:
    wanted = type_text(field.dataType)
    if own is None:
        return F.lit(None).cast(wanted)
    column = F.col(quote(field.name))
    return column if type_text(own) == wanted else column.cast(wanted)
