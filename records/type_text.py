"""Types as SQL text takes them, to cast to.

    StructType([("a b", StringType())])      STRUCT<`a b`: string>

Sent as a value, Connect makes a text's type name its collation, and rows have ``string collate UTF8_BINARY``. A table
that Spark makes or grows by such rows is one that delta-rs does not open.
Held by ``tests/infra/test_small_frames.py`` and ``tests/infra/delta/test_schema_evolution.py``.
"""

from __future__ import annotations

from pyspark.sql import types as T


def quoted(name: str) -> str:
    """A column's name as SQL text takes it."""
    return "`" + name.replace("`", "``") + "`"


def type_text(kind: T.DataType) -> str:
    """The type in Spark's own words; names of fields are quoted."""
    if isinstance(kind, T.StructType):
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {type_text(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{type_text(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{type_text(kind.keyType)}, {type_text(kind.valueType)}>"
    return kind.simpleString()
