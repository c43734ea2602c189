"""The subscriptions of a foreign-key join as a view: which left rows a change of a right key affects.

A subscription is a live left row seen from its foreign key; a row without one has none. Its combined key is

    length of the serialized foreign key (4 bytes, big-endian)   serialized foreign key   serialized primary key

so that one foreign key's subscriptions lie together, and those of "ff" not among those of "f":

    p1 {f}     00000001 66 7031
    p2 {f}     00000001 66 7032
    B  {ff}    00000002 6666 42

A key is serialized column by column: text as its UTF-8 bytes, binary as it is, a whole number as 8 bytes in big-endian
two's complement. The combined keys of one foreign key sort as the fan-out emits the left rows, where the primary key
is one column of text or of numbers that are not negative: bytes put -1 after 1.

Source: KIP-213 (prefix scanning using a combined key). Held by ``tests/joins/tables/test_subscriptions.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, ByteType, DataType, IntegerType, LongType, ShortType, StringType, StructType

from rivermeet.joins.tables.versions import pointing
from rivermeet.joins.values import key_type
from rivermeet.pipelines import ForeignKeyJoin


def subscriptions(join: ForeignKeyJoin, left_rows: DataFrame, right_key_type: StructType) -> DataFrame:
    """Columns ``combined_key`` BINARY, ``foreign_key`` STRUCT, ``primary_key`` STRUCT, ``left_hash``.

    Parameters
    ----------
    left_rows
        Live rows of the left table: ``key``, ``value``, ``timestamp``.
    right_key_type
        Type of the right table's key.
    """
    hashed = left_rows.withColumn("left_hash", F.xxhash64("value"))
    rows = pointing(hashed, "left", join.foreign_key, right_key_type).where(F.col("fk").isNotNull())
    combined = F.concat(prefix(F.col("fk"), right_key_type), serialized(F.col("key"), key_type(left_rows)))
    return rows.select(
        combined.alias("combined_key"), F.col("fk").alias("foreign_key"), F.col("key").alias("primary_key"), "left_hash"
    )


def prefix(foreign_key: Column, kind: StructType) -> Column:
    """What the combined keys of a foreign key begin with, and no others."""
    key = serialized(foreign_key, kind)
    return F.concat(_big_endian(F.octet_length(key), 4), key)


def serialized(key: Column, kind: StructType) -> Column:
    """The bytes of a key: those of its columns, one after the other."""
    return F.concat(*(_bytes(key.getField(field.name), field.name, field.dataType) for field in kind.fields))


def _bytes(column: Column, name: str, kind: DataType) -> Column:
    if isinstance(kind, StringType):
        return F.encode(column, "UTF-8")
    if isinstance(kind, BinaryType):
        return column
    if isinstance(kind, ByteType | ShortType | IntegerType | LongType):
        return _big_endian(column, 8)
    raise TypeError(
        f"key column '{name}' is {kind.simpleString()}: text, binary and whole numbers have bytes to sort by"
    )


def _big_endian(number: Column, width: int) -> Column:
    return F.unhex(F.lpad(F.hex(number.cast("bigint")), 2 * width, "0"))
