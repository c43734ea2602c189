"""Types as SQL text, for casts.

    StructType([("a b", StringType())])      STRUCT<`a b`: string>

If a type is sent as a value, Connect adds the collation of strings, and rows have ``string collate UTF8_BINARY``.
delta-rs cannot open a table that Spark creates or extends with such rows. Held by ``tests/infra/test_small_frames.py``
and ``tests/infra/delta/test_schema_evolution.py``.
"""

from __future__ import annotations

import re
from functools import cache

from pyspark.sql import types as T

_DECIMAL = re.compile(r"(?i)\s*(?:decimal|dec|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)\s*")
_SIMPLE: dict[str, T.DataType] = {
    "BOOLEAN": T.BooleanType(),
    "TINYINT": T.ByteType(),
    "BYTE": T.ByteType(),
    "SMALLINT": T.ShortType(),
    "SHORT": T.ShortType(),
    "INT": T.IntegerType(),
    "INTEGER": T.IntegerType(),
    "BIGINT": T.LongType(),
    "LONG": T.LongType(),
    "FLOAT": T.FloatType(),
    "REAL": T.FloatType(),
    "DOUBLE": T.DoubleType(),
    "STRING": T.StringType(),
    "BINARY": T.BinaryType(),
    "DATE": T.DateType(),
    "TIMESTAMP": T.TimestampType(),
    "TIMESTAMP_LTZ": T.TimestampType(),
    "TIMESTAMP_NTZ": T.TimestampNTZType(),
}


def quote(name: str) -> str:
    """A column's name, quoted for SQL text."""
    return "`" + name.replace("`", "``") + "`"


def type_text(kind: T.DataType) -> str:
    """The type in Spark SQL; names of fields are quoted."""
    if isinstance(kind, T.StructType):
        return f"STRUCT<{', '.join(f'{quote(field.name)}: {type_text(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{type_text(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{type_text(kind.keyType)}, {type_text(kind.valueType)}>"
    return kind.simpleString()


@cache
def kind_of(text: str) -> T.DataType:
    """The type of a declared text; the engine is asked for it only where it is nested, and once.

    Examples
    --------
    >>> kind_of("decimal(5, 2)")
    DecimalType(5,2)
    """
    decimal = _DECIMAL.fullmatch(text)
    if decimal is not None:
        return T.DecimalType(int(decimal[1]), int(decimal[2] or 0))
    return _SIMPLE.get(text.strip().upper()) or T.DataType.fromDDL(text)
