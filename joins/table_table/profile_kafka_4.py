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

from rivermeet.joins.operator import EpochFrames, EpochInputs
from rivermeet.joins.table_table.changes import find_changes, input_caches
from rivermeet.joins.table_table.rows import (
    build_rows,
    finish,
    flush_caches,
    is_left,
    is_other_present,
    later_timestamp,
    was_own_present,
)
from rivermeet.joins.tables.versions import read_state
from rivermeet.pipelines import TableTableJoin

state = read_state


def compute(join: TableTableJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    emits = is_other_present() if join.how == "inner" else is_other_present() | was_own_present()
    if join.how == "left":
        emits = emits & is_left()
    rows = build_rows(join, find_changes(join, inputs, input_caches(join)), emits=emits, timestamp=later_timestamp())
    return finish(join, rows if join.cache is None else flush_caches(join, inputs, rows))
