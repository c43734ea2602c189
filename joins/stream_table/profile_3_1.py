"""stream ⋈ table, profiles 3.1 and kafka-4: each record is joined with what the table has; the table never triggers.

``key`` maps a stream record to the table's key; by default it is the record's own. The row has the stream record's key
and timestamp. A null value is ignored; where the table has nothing there is no row (inner), or a one-sided one (left).

    left  k A@3       A-null @3
    right k a@9       nothing
    left  k B@5       B-a @5: the value of now, though it is newer than the record
    right k null@6    nothing
    left  - C@7       C-null @7: a null key is looked up as one that the table lacks (inner: nothing)

A versioned table is looked up as of the record's timestamp, so that B@5 would give B-null; with a ``grace`` the record
waits first (``joins/stream_table/grace.py``). What gives nothing for its null key is in the late table.

Source: wiki page "Kafka Streams Join Semantics" (KStream-KTable join), KIP-914, KIP-923, KIP-962. Held by
``tests/joins/stream_table/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.stream_table.grace import release_waiting
from rivermeet.joins.stream_table.lookups import at_once, look_up, rows_of, with_key_to_look_up
from rivermeet.joins.tables.versioned import version_at
from rivermeet.pipelines import StreamTableJoin

READS_ONCE = True


def state(join: StreamTableJoin) -> StateRead:
    """The table before the epoch; a versioned one's whole history; with a grace the records that wait."""
    if join.right.history is None:
        return {"right": "before"}
    return {"right": "earlier"} if join.grace is None else {"left": "open", "right": "earlier"}


def compute(join: StreamTableJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    facts = inputs.keep(with_key_to_look_up(join, inputs.left.where(F.col("value").isNotNull()), inputs))
    keyed, without = facts.where(F.col("mapped").isNotNull()), facts.where(F.col("mapped").isNull())
    if join.right.history is None:
        found = look_up(join, at_once(keyed), inputs)
    elif join.grace is None:
        found = version_at(at_once(keyed), inputs, join.right.history)
    else:
        earlier = inputs.open_records("left", join.grace).where(F.col("value").isNotNull())
        waiting = with_key_to_look_up(join, earlier, inputs).where(F.col("mapped").isNotNull())
        found = version_at(inputs.keep(release_waiting(keyed, waiting, inputs, join.grace)), inputs, join.right.history)
    timed = () if join.grace is None else (keyed,)
    if join.how == "inner":
        return rows_of(join, found.where(F.col("right").isNotNull()), *timed, without=without)
    # Nothing can be looked up, now or later, so that there is nothing to wait for either.
    return rows_of(join, found.unionByName(at_once(without), allowMissingColumns=True), *timed)
