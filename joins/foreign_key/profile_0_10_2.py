"""table ⋈ table on a foreign key as Kafka Streams 3.0 has it: null foreign keys stop a change (profile "0.10.2").

| left change | what happens |
|---|---|
| the old or the new foreign key null, though the value is not | dropped; the left table still has it |
| insert | subscribes; inner: joined row if the right row exists; left: always a row |
| update, also with the same foreign key | unsubscribes from another, subscribes; a row, or left-null, or a tombstone |
| delete | unsubscribes; tombstone at the later of its own and the right row's timestamp |

A dropped change leaves a subscription behind, so these are state of their own. A right change is answered for those
whose value is the left row's now:

    right f x@1
    left  k f|1@2     (f|1, x)@2
    left  k |1@3      nothing, and the row stays
    right f y@4       nothing: k still subscribes to f, but for f|1, and k is |1 now
    left  k f|1@5     nothing: a change from a null foreign key
    right f z@6       (f|1, z)@6: the old subscription is that of f|1 again

``memory`` holds the subscriptions: fk, key, ``left_hash``, ``partition``. A cache commits as
``joins/foreign_key/cached.py`` says.

Source: KIP-213 as released in Kafka Streams 3.0. Held by ``tests/joins/foreign_key/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.foreign_key import cached as foreign_key_cached
from rivermeet.joins.foreign_key.rows import answer, fan_out, look_up_right, sides, with_values
from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.tables.as_of import hold_together
from rivermeet.joins.tables.versions import read_state
from rivermeet.joins.values import nothing_like, null_of
from rivermeet.pipelines import ForeignKeyJoin

READS_ONCE = True


def state(join: ForeignKeyJoin) -> StateRead:
    """Both tables, as the epoch found them."""
    return read_state(join)


def compute(join: ForeignKeyJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`, and ``left_hash``."""
    found = foreign_key_cached.sides(join, inputs) if join.cache else sides(join, inputs)
    subscriptions = inputs.keep(_subscriptions(found.versions, inputs.memory()))
    awake = _awake(subscriptions, found.standing)
    rows = _answer_left(join, look_up_right(found, inputs)).unionByName(fan_out(join, found.emitting, awake))
    if join.cache:
        rows = foreign_key_cached.commit_rows(join, inputs, rows)
    lasting = subscriptions.where(F.col("until").isNull()).select("fk", "key", "left_hash", "partition")
    return EpochFrames(with_values(join, rows), memory=lasting)


def _is_accepted() -> Column:
    """Whether a left change is one that the join takes."""
    alive, points, pointed = F.col("left").isNotNull(), F.col("fk").isNotNull(), F.col("old_fk").isNotNull()
    return (alive | F.col("was_there")) & (points | ~alive) & (pointed | ~F.col("was_there"))


def _answer_left(join: ForeignKeyJoin, changes: DataFrame) -> DataFrame:
    alive, exists = F.col("left").isNotNull(), F.col("exists")
    always = F.lit(join.how == "left")
    return answer(changes, _is_accepted() & (exists | always | F.col("was_there")), alive & (exists | always), exists)


def _subscriptions(versions: DataFrame, memory: DataFrame | None) -> DataFrame:
    """Foreign key, left key and hash of the value subscribed for, with the part of the order where it holds."""
    changes = versions.where(F.col("order").isNotNull() & _is_accepted())
    left = changes.where(F.col("old_fk").isNotNull() & (F.col("fk").isNull() | (F.col("fk") != F.col("old_fk"))))
    columns = ("key", "left_hash", "partition", "order")
    entered = changes.where(F.col("fk").isNotNull()).select("fk", *columns)
    ended = left.select(F.col("old_fk").alias("fk"), *columns).withColumn("left_hash", null_of("left_hash"))
    events = entered.unionByName(ended)
    if memory is not None:
        lasting = memory.select("fk", "key", "left_hash", "partition")
        events = events.unionByName(lasting.withColumn("order", nothing_like(versions, "order")))
    per_pair = Window.partitionBy("key", "fk").orderBy(F.col("order").asc_nulls_first())
    # The end of a subscription has no hash.
    return events.select("*", F.lead("order").over(per_pair).alias("until")).where(F.col("left_hash").isNotNull())


def _awake(subscriptions: DataFrame, standing: DataFrame) -> DataFrame:
    """Subscriptions while the left row has the value that they were made for, with that row."""
    both = subscriptions.alias("s").join(
        standing.alias("l"),
        (F.col("s.key") == F.col("l.key")) & (F.col("s.left_hash") == F.col("l.left_hash")) & hold_together("s", "l"),
    )
    return both.select(
        F.col("l.key").alias("key"),
        F.col("l.partition").alias("partition"),
        F.col("l.left").alias("left"),
        F.col("l.left_hash").alias("left_hash"),
        F.col("s.fk").alias("fk"),
        F.greatest("s.order", "l.order").alias("order"),
        F.least("s.until", "l.until").alias("until"),
    )
