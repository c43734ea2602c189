"""table ⋈ table on the key, profiles kafka-4 and 0.10.2: a tombstone if the other side has a row, or this side had one.

    right k a@1        nothing: there is no left row (left join)
    left  k A@2        A-a @2
    left  k null@3     tombstone @3
    left  k null@5     tombstone @5: the other side has a row
    right k null@6     nothing: of a left join, the right never emits a tombstone

Of an inner join only the other side counts. A row's timestamp is the later of the change's and the other side's, where
that has a row. With a cache the inputs are cached: at a commit each side's last change of every key is put to the other
side as it is then, left before right; then the ``materialized`` result in the same way. The commit's last record is the
trigger. A versioned side has no cache.

Source: released Kafka Streams, KTableKTableJoin and its caches. Held by ``tests/joins/table_table/test_recorded.py``.
"""

from __future__ import annotations

from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.table_table.changes import changes, input_caches
from rivermeet.joins.table_table.rows import (
    flush_caches,
    later_timestamp,
    of_left,
    other_present,
    own_present,
    result,
    rows_of,
)
from rivermeet.joins.tables.versions import read_state
from rivermeet.pipelines import TableTableJoin


def state(join: TableTableJoin) -> StateRead:
    """Both tables before the epoch; of a versioned one its whole history."""
    return read_state(join)


def compute(join: TableTableJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    emits = other_present() if join.how == "inner" else other_present() | own_present()
    if join.how == "left":
        emits = emits & of_left()
    rows = rows_of(join, changes(join, inputs, input_caches(join)), emits=emits, timestamp=later_timestamp())
    return result(join, rows if join.cache is None else flush_caches(join, inputs, rows))
