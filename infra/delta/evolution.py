"""Schema evolution: new columns and wider types are added by the commit that first needs them.

    table    key, value STRUCT<n: INT>, …
    rows     key, value STRUCT<n: BIGINT, s: STRING>, …      the table gains both; its old rows have s NULL
    rows     key, value STRUCT<n: INT>, …                    it keeps both; n is cast, s is NULL
    rows     key, value STRUCT<n: STRING>, …                 refused
    rows     key, value STRUCT<N: INT>, …                    it keeps n: names are not case-sensitive

With equal schemas nothing changes. A wider type needs a table feature (``typeWidening``) that
some other readers and writers do not support, among them delta-rs: it opens, checkpoints and vacuums such a table, but
neither reads nor alters it. So the feature is enabled when a wider type is first written, and never before.

Source: Delta protocol (Type Widening). Held by ``tests/infra/delta/test_schema_evolution.py``.
"""

from __future__ import annotations

import re

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from rivermeet.infra.delta.plain_files import schema_of
from rivermeet.infra.delta.widening import widens
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.records.type_text import type_text

_WIDENING = {"delta.enableTypeWidening": "true"}
_WITHOUT_ZONE = {"delta.feature.timestampNtz": "supported"}
"""Delta enables it automatically only in a new table."""
_ZONELESS = re.compile(r"[:<]timestamp_ntz\b")


class ShapeChangedError(EpochRefusedError):
    """Rows that a table cannot accept: a column has an incompatible type."""

    remedy = "Give the new column another name, or rebuild the node."


def fit_rows(rows: DataFrame, table: DeltaTable) -> tuple[DataFrame, dict[str, str] | None]:
    """The rows in the table's schema, and the properties that it needs for new columns; None if it is unchanged.

    Raises
    ------
    ShapeChangedError
        If a column's type differs from that of the table, and neither of them is the wider one.
    """
    have, given = schema_of(table), rows.schema
    if is_alike(have, given):
        return rows, None
    target = _merge_types(have, given, table.table_uri)
    if _shape(target) != _shape(given):
        packed = rows.select(F.struct("*").alias("row"))
        rows = packed.select(_as(F.col("row"), given, target).alias("row")).select("row.*")
    if _shape(target) == _shape(have):
        return rows, None
    return rows, {**(_WIDENING if _is_wider(target, have) else {}), **without_zone(rows, table)}


def without_zone(rows: DataFrame, table: DeltaTable) -> dict[str, str]:
    """The property that a table needs for its first TIMESTAMP_NTZ column."""
    first = _ZONELESS.search(rows.schema.simpleString()) and "timestamp_ntz" not in table.schema().to_json()
    return _WITHOUT_ZONE if first else {}


def is_alike(one: DataType, other: DataType) -> bool:
    """Whether two types are the same but for the order, nullability and metadata of a struct's fields."""
    return _shape(one) == _shape(other)


def _shape(kind: DataType) -> object:
    """A type in normal form: without the order, nullability and metadata of a struct's fields."""
    if isinstance(kind, StructType):
        return {field.name: _shape(field.dataType) for field in kind.fields}
    return kind.simpleString()


def _merge_types(have: DataType, given: DataType, path: str, column: str = "") -> DataType:
    """The type that contains both: the table's fields, and the additional ones of the rows."""
    if _shape(have) == _shape(given):
        return have
    if isinstance(have, StructType) and isinstance(given, StructType):
        theirs = {field.name.upper(): field for field in given.fields}
        found = StructType()
        for field in have.fields:
            name = f"{column}.{field.name}" if column else field.name
            theirs_too = theirs.pop(field.name.upper(), field).dataType
            found.add(field.name, _merge_types(field.dataType, theirs_too, path, name))
        for field in theirs.values():
            found.add(field.name, field.dataType)
        return found
    there, here = have.simpleString().upper(), given.simpleString().upper()
    if there == here:
        return have
    if widens(there, here):
        return given
    if widens(here, there):
        return have
    # Locations end with PIPELINE/NODE/TABLE.
    pipeline, node, _ = path.rstrip("/").rsplit("/", 3)[-3:]
    raise ShapeChangedError(
        f"table {path}: column '{column}' is {there} there and {here} in the rows to be written, which is no wider "
        f"type: give the new column another name, or run `rivermeet rebuild {pipeline} --select {node}`",
        table=path,
        column=column,
    )


def _is_wider(target: DataType, have: DataType) -> bool:
    if isinstance(target, StructType) and isinstance(have, StructType):
        return any(_is_wider(target[field.name].dataType, field.dataType) for field in have.fields)
    return _shape(target) != _shape(have)


def _as(column: Column, given: DataType, target: DataType) -> Column:
    """A column cast to the type: widened, with NULL for missing fields."""
    if isinstance(given, StructType) and isinstance(target, StructType):
        own = {field.name.upper(): field for field in given.fields}
        return F.when(
            column.isNotNull(),
            F.struct(
                *(
                    _as(column.getField(mine.name), mine.dataType, f.dataType).alias(f.name)
                    if (mine := own.get(f.name.upper())) is not None
                    else F.lit(None).cast(type_text(f.dataType)).alias(f.name)
                    for f in target.fields
                )
            ),
        )
    return column if _shape(given) == _shape(target) else column.cast(type_text(target))
