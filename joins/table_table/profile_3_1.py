"""table ⋈ table on the key, profile 3.1: a change without a row emits a tombstone if the key had a row before.

    right k a@1        nothing: there is no left row (left join)
    left  k A@2        A-a @2
    right k null@3     A-null @3
    left  k null@1     tombstone @1, the change's own timestamp
    left  k null@5     nothing: there was no row

A row's timestamp is the later of the change's and the other side's, where that has a row. With a cache it is the net
change per key and commit (``joins/tables/cache.py``).

Source: KIP-77, KIP-914, wiki page "Kafka Streams Join Semantics" (KTable-KTable join). Held by
``tests/joins/table_table/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs
from rivermeet.joins.table_table.changes import find_changes
from rivermeet.joins.table_table.rows import build_rows, finish, later_timestamp
from rivermeet.joins.tables.cache import net_changes
from rivermeet.joins.tables.versions import read_state
from rivermeet.pipelines import TableTableJoin

READS_ONCE = True
state = read_state


def compute(join: TableTableJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    rows = build_rows(join, find_changes(join, inputs), emits=F.col("was"), timestamp=later_timestamp())
    if join.cache is not None:
        rows = inputs.keep(rows)
        # The key's first row says whether there was one before the epoch.
        first = rows.groupBy("key").agg(F.min_by("was", "sequence").alias("was")).where("was")
        rows = net_changes(rows, first.select("key"))
    return finish(join, rows)
