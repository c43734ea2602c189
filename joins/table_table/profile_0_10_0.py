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

from rivermeet.joins.operator import EpochFrames, EpochInputs
from rivermeet.joins.table_table.changes import find_changes, input_caches
from rivermeet.joins.table_table.rows import build_rows, finish, flush_caches
from rivermeet.joins.tables.versions import read_state
from rivermeet.pipelines import TableTableJoin

state = read_state


def compute(join: TableTableJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    found = find_changes(join, inputs, input_caches(join))
    rows = build_rows(join, found, emits=F.lit(True), timestamp=F.col("timestamp"))
    return finish(join, rows if join.cache is None else flush_caches(join, inputs, rows))
