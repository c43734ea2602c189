"""table ⋈ table on the key, profile 0.10.0: every change without a row emits a tombstone, needless ones included.

    right k a@1        tombstone @1, although there is no left row (left join)
    left  k A@2        A-a @2
    left  k null@3     tombstone @3
    left  k null@5     tombstone @5 once more

Every timestamp is the change's own. Caches are those of ``joins/table_table/profile_kafka_4.py``.

Source: released Kafka Streams 0.10.0 and 0.10.1, KTableKTableJoin. Held by
``tests/joins/table_table/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.table_table.changes import changes, input_caches
from rivermeet.joins.table_table.rows import flush_caches, result, rows_of
from rivermeet.joins.tables.versions import read_state
from rivermeet.pipelines import TableTableJoin


def state(join: TableTableJoin) -> StateRead:
    """Both tables before the epoch; of a versioned one its whole history."""
    return read_state(join)


def compute(join: TableTableJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    found = changes(join, inputs, input_caches(join))
    rows = rows_of(join, found, emits=F.lit(True), timestamp=F.col("timestamp"))
    return result(join, rows if join.cache is None else flush_caches(join, inputs, rows))
