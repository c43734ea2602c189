"""table ⋈ table on a foreign key: every change of either side is answered for each left row that it touches.

The foreign key of a left row is an expression over it; a left row subscribes to the right key that it points to.

| left change | inner | left |
|---|---|---|
| insert, or update with the same foreign key | joined row if the right row exists | joined row, or left-null |
| foreign key changed | joined row, or a tombstone | joined row, or left-null |
| foreign key became null | tombstone | left-null |
| insert or update with a null foreign key | nothing | left-null |
| delete, foreign key was valid | tombstone | tombstone |
| delete, foreign key was null | nothing | tombstone |
| null over null | nothing | nothing |

A right change is answered for every left row that points to it: joined rows, or where it is deleted tombstones
(inner) or left-null rows (left). right (1, foo) there before, inner join:

    left  k -> 1            (k, 1, foo)
    left  k -> 3            (k, null)         the foreign key changed and 3 is not there
    right 3 = bar           (k, 3, bar)
    left  k deleted         (k, null)

Timestamps: a left change has the later of its own and that of the right row that answered it (in an inner join also
where the answer is the tombstone of a row that pointed there), a right change its own. ``left_hash``
is the hash of the left value that the row was made for (NULL where that was deleted): it distinguishes a row from a
stale one. Profile "kafka-4" is the same without a cache; with one it is ``joins/foreign_key/cached.py``. In "3.1" a
cache emits the net change per key and commit.

Source: KIP-213 (tombstones and foreign key changes), wiki page "Kafka Streams Join Semantics" (foreign-key join),
KIP-962 for null foreign keys. Held by ``tests/joins/foreign_key/test_foreign_key.py``,
``tests/joins/foreign_key/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.foreign_key import cached as foreign_key_cached
from rivermeet.joins.foreign_key.rows import answer, fan_out, look_up_right, sides, with_values
from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.tables.versions import read_state
from rivermeet.pipelines import ForeignKeyJoin

READS_ONCE = True


def state(join: ForeignKeyJoin) -> StateRead:
    """Both tables, as the epoch found them."""
    return read_state(join)


def compute(join: ForeignKeyJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`, and ``left_hash``."""
    waiting = join.cache is not None and join.semantics == "kafka-4"
    found = foreign_key_cached.sides(join, inputs) if waiting else sides(join, inputs)
    rows = _answer_left(join, look_up_right(found, inputs)).unionByName(fan_out(join, found.emitting, found.standing))
    if waiting:
        rows = foreign_key_cached.commit_rows(join, inputs, rows)
    elif join.cache is not None:
        rows = foreign_key_cached.net_change(inputs, rows)
    return EpochFrames(with_values(join, rows))


def _answer_left(join: ForeignKeyJoin, changes: DataFrame) -> DataFrame:
    alive, exists = F.col("left").isNotNull(), F.col("exists")
    points, pointed = F.col("fk").isNotNull(), F.col("old_fk").isNotNull()
    meets = alive & points & exists
    if join.how == "left":
        # A left join unsubscribes silently and answers a delete itself.
        return answer(changes, alive | F.col("was_there"), alive, partner=meets)
    moved = pointed & (~points | (F.col("fk") != F.col("old_fk")))
    # A tombstone of an inner join comes from where the row was subscribed, with that right row's timestamp.
    return answer(changes, meets | moved, meets, partner=exists)
