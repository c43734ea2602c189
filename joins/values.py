"""Value joiner, key mapper and foreign-key extractor: declared expressions over records.

An expression of ``select`` sees two structs, ``left`` and ``right``, each with the key and value columns of its record
and ``_timestamp``; the struct of a missing side is NULL, so that ``left.n - right.n`` is null without a partner and
``right IS NULL`` shows why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rivermeet.pipelines.joins import ValueExpr
from rivermeet.records.type_text import type_text

_COLUMN = re.compile("`[^`]+`")
"""An expression that is a column's quoted name."""


def with_record(records: DataFrame, name: str) -> DataFrame:
    """Add the STRUCT column ``name`` that expressions see; NULL where the value is null."""
    return records.select("*", F.when(F.col("value").isNotNull(), record()).alias(name))


def record() -> Column:
    """The STRUCT of a record that expressions see; the engine fills in its fields without a request for them."""
    return F.struct("key.*", "value.*", F.col("timestamp").alias("_timestamp"))


def join_values(select: Mapping[str, ValueExpr]) -> Column:
    """The value STRUCT of a result row, over columns ``left`` and ``right``."""
    left, right = F.col("left"), F.col("right")
    return F.struct(
        *((F.expr(e) if isinstance(e, str) else e(left, right)).alias(column) for column, e in select.items())
    )


def with_mapped_key(
    records: DataFrame, record: str, mapper: Mapping[str, str], key_type: StructType, name: str
) -> DataFrame:
    """Add ``name``: the key in another table that each record points to, NULL if any part of it is null.

    Parameters
    ----------
    records
        Has the STRUCT column ``record`` made by `with_record`; the expressions see its fields as columns.
    mapper
        Key column of the other table to SQL expression.
    key_type
        Type of the other table's key.
    """
    # The type by its name: if it is sent as a value, Connect adds the collation of strings, which Delta then writes.
    types = {c: type_text(key_type[c].dataType) for c in key_type.fieldNames()}
    if all(_COLUMN.fullmatch(sql) for sql in mapper.values()):
        # Spark no longer knows of a packed row what it is partitioned by (tests/joins/test_plans.py).
        parts = {c: F.col(f"`{record}`.{mapper[c]}").cast(kind) for c, kind in types.items()}
        whole = reduce(Column.__and__, (part.isNotNull() for part in parts.values()))
        return records.select("*", F.when(whole, F.struct(*(parts[c].alias(c) for c in types))).alias(name))
    # The row is packed first: a field of the record may have the name of one of our own columns.
    packed = records.select(F.struct("*").alias("__row"))
    parts = {c: F.expr(mapper[c]).cast(kind) for c, kind in types.items()}
    fields = packed.select("__row", F.col(f"__row.`{record}`.*"))
    keyed = fields.select("__row", F.struct(*(parts[c].alias(c) for c in types)).alias("__key"))
    whole = reduce(Column.__and__, (F.col("__key").getField(c).isNotNull() for c in types))
    return keyed.select("__row.*", F.when(whole, F.col("__key")).alias(name))


def key_type(frame: DataFrame) -> StructType:
    """Type of a changelog's key."""
    kind = frame.schema["key"].dataType
    assert isinstance(kind, StructType)
    return kind


def nothing_like(frame: DataFrame, column: str) -> Column:
    """NULL of a column's type."""
    return F.lit(None).cast(frame.schema[column].dataType)


def null_of(column: str) -> Column:
    """NULL of the type of a column of the same frame, without a request to the engine."""
    return F.when(F.lit(False), F.col(column))
