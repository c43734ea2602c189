"""The record that a result row comes from: its trigger, one struct in every changelog.

    right f x@2, partition 0, offset 7      trigger {side: right, partition: 0, offset: 7}

Held by ``tests/joins/test_documented.py``, which compares the trigger of every row with the reference joins'.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def record_at(side: str | Column, partition: str | Column = "partition", offset: str | Column = "offset") -> Column:
    """STRUCT<side STRING, partition INT, offset BIGINT>: the place of a record in the operator's inputs.

    Parameters
    ----------
    side
        ``"left"`` or ``"right"``, or a column of these.
    partition, offset
        Columns, or their names.
    """
    parts = {"side": F.lit(side) if isinstance(side, str) else side, "partition": partition, "offset": offset}
    return F.struct(*((F.col(part) if isinstance(part, str) else part).alias(name) for name, part in parts.items()))


def trigger_of(side: str | Column, partition: str | Column = "partition", offset: str | Column = "offset") -> Column:
    """The record that caused a row, as its column ``trigger``."""
    return record_at(side, partition, offset).alias("trigger")
