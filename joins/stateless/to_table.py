"""to_table: a stream's records as the changelog of a table; to_stream: the changelog of a table as a stream.

Both forward every record as it is. A table has no row without a key: such records are kept in the late table, which
says of no window that it was closed (``stream_time`` and ``close`` are null).

    a {n: 1}      a {n: 1}
    a {n: 2}      a {n: 2}      replaces the row
    - {n: 3}      nothing       in the late table
    a NULL        a NULL        deletes the row; in a stream, a record without a value

Source: released Kafka Streams 4.x, ``KStream.toTable`` (which counts such records as dropped) and ``KTable.toStream``.
Held by ``tests/joins/stateless/test_stateless.py``.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from rivermeet.joins.late import without_key
from rivermeet.joins.operator import EpochFrames, EpochInputs
from rivermeet.joins.stateless.one_input import build_rows, read_nothing
from rivermeet.pipelines import ToStream, ToTable

READS_ONCE = True
state = read_nothing


def compute(operation: ToTable | ToStream, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    if isinstance(operation, ToStream):
        return EpochFrames(build_rows(inputs.left))
    keyless = inputs.left.where(F.col("key").isNull())
    late = without_key(keyless, F.lit("left"), F.to_json("value"))
    return EpochFrames(build_rows(inputs.left.where(F.col("key").isNotNull())), late=late)
