"""What operations around joins share: SQL over a record's columns, and result rows that keep their record's place."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.operator import StateRead
from rivermeet.joins.provenance import trigger_of
from rivermeet.pipelines import Operation


def read_nothing(operation: Operation) -> StateRead:
    """The state of an operation that needs the epoch's records alone."""
    return {}


def add_expressions(records: DataFrame, sql: Mapping[str, str], name: str, where: str = "true") -> DataFrame:
    """Add the STRUCT ``name`` of SQL over key and value columns and ``_timestamp``; NULL where ``where`` is not true.

    The columns of a null key or value are null. ``where`` is SQL over `records`, the record packed as ``__row``; it
    guards the expressions, which may fail on other records.
    """
    # The row is packed first: a field of the record may be called like one of our own columns.
    packed = records.select(F.struct("*").alias("__row"))
    seen = packed.select("__row", "__row.key.*", "__row.value.*", F.col("__row.timestamp").alias("_timestamp"))
    found = F.struct(*(F.expr(e).alias(c) for c, e in sql.items()))
    return seen.select("__row.*", F.when(F.expr(where), found).alias(name))


def judge(records: DataFrame, where: str, name: str) -> DataFrame:
    """Add the BOOLEAN ``name``: whether the SQL over key and value columns is true; it is false where that is null."""
    found = add_expressions(records, {"passes": where}, name)
    return found.withColumn(name, F.coalesce(F.col(name).getField("passes"), F.lit(False)))


def build_rows(records: DataFrame, side: str = "left", **columns: Column) -> DataFrame:
    """One result row per record, in the order of the records; ``columns`` replace key, value or partition."""
    return records.select(
        *(columns.get(c, F.col(c)).alias(c) for c in ("key", "value", "timestamp", "partition")),
        trigger_of(side),
        F.struct("order").alias("sequence"),
    )
