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
is the hash of the left value that the row was made for (NULL where that was deleted), so that a row can be told from
a stale one. The left rows that a right change meets are those whose validity interval contains its place in the order.

Source: KIP-213 (tombstones and foreign key changes), wiki page "Kafka Streams Join Semantics" (foreign-key join),
KIP-962 for null foreign keys. Held by ``tests/joins/test_foreign_key.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from joins.operator import EpochFrames, EpochInputs, StateRead
from joins.values import joined_value, key_type, with_mapped_key, with_record
from pipelines import ForeignKeyJoin


def state(join: ForeignKeyJoin) -> StateRead:
    """Both tables, as the epoch found them."""
    return {"left": "before", "right": "before"}


def compute(join: ForeignKeyJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`, and ``left_hash``."""
    changes = inputs.keep(_subscribing(join, inputs.left.where(F.col("key").isNotNull()).drop("commit"), inputs))
    updates = inputs.keep(with_record(inputs.right.where(F.col("key").isNotNull()).drop("commit"), "right"))
    rows_before = inputs.table("left", "before")
    earlier = _subscribing(join, rows_before.withColumn("order", _no_order(inputs)), inputs)
    changed = changes.select("key").distinct()
    versions = inputs.keep(_versions(earlier.join(changed, "key", "left_semi").unionByName(changes)))
    untouched = earlier.join(changed, "key", "left_anti").withColumn("until", _no_order(inputs))
    subscribed = untouched.unionByName(versions.select(*untouched.columns))
    left_triggered = _answer_left(join, _with_right(versions, updates, inputs))
    right_triggered = _answer_right(join, updates, subscribed)
    rows = left_triggered.unionByName(right_triggered)
    return EpochFrames(
        rows.withColumn("value", F.when(F.col("live"), joined_value(join.select))).drop("left", "right", "live")
    )


def _no_order(inputs: EpochInputs) -> Column:
    """The order of what was there before the epoch: NULL, before everything."""
    kind: DataType = inputs.left.schema["order"].dataType
    return F.lit(None).cast(kind)


def _subscribing(join: ForeignKeyJoin, records: DataFrame, inputs: EpochInputs) -> DataFrame:
    """Left records with ``left`` (NULL: deleted), ``left_hash`` and foreign key ``fk`` (NULL: none)."""
    hashed = F.when(F.col("value").isNotNull(), F.xxhash64("value"))
    sided = with_record(records, "left").withColumn("left_hash", hashed)
    keyed = with_mapped_key(sided, "left", join.foreign_key, key_type(inputs.right), "fk")
    fk = F.when(F.col("left").isNotNull(), F.col("fk"))
    return keyed.drop("value").withColumn("fk", fk)


def _versions(records: DataFrame) -> DataFrame:
    """Left records with what they replaced (``was_there``, ``old_fk``) and where their validity ends (``until``)."""
    per_key = Window.partitionBy("key").orderBy(F.col("order").asc_nulls_first())
    return (
        records.withColumn("until", F.lead("order").over(per_key))
        .withColumn("was_there", F.coalesce(F.lag(F.col("left").isNotNull()).over(per_key), F.lit(False)))
        .withColumn("old_fk", F.lag("fk").over(per_key))
    )


def _with_right(versions: DataFrame, updates: DataFrame, inputs: EpochInputs) -> DataFrame:
    """The epoch's left changes with the right row, as of their place in the order, of the key they ask for.

    A change without a foreign key of its own asks for the one it replaced: its tombstone takes that row's timestamp.
    """
    changes = versions.where(F.col("order").isNotNull()).withColumn("asked", F.coalesce("fk", "old_fk"))
    asked = changes.select(F.col("asked").alias("key")).where("key IS NOT NULL").distinct()
    before = with_record(inputs.table("right", "before"), "right").join(asked, "key", "left_semi")
    found = F.struct("right", "timestamp").alias("found")
    rights = before.withColumn("order", _no_order(inputs)).unionByName(updates.select(*before.columns, "order"))
    both = changes.unionByName(rights.select(F.col("key").alias("asked"), "order", found), allowMissingColumns=True)
    earlier = (
        Window.partitionBy("asked")
        .orderBy(F.col("order").asc_nulls_first())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    # The last right row, also where it is a tombstone: `found` is never NULL for a right row.
    return (
        both.withColumn("found", F.last("found", ignorenulls=True).over(earlier))
        .where(F.col("offset").isNotNull())
        .withColumn("exists", F.coalesce(F.col("found.right").isNotNull() & F.col("asked").isNotNull(), F.lit(False)))
    )


def _answer_left(join: ForeignKeyJoin, changes: DataFrame) -> DataFrame:
    alive, exists = F.col("left").isNotNull(), F.col("exists")
    points, pointed = F.col("fk").isNotNull(), F.col("old_fk").isNotNull()
    meets = alive & points & exists
    if join.how == "inner":
        moved = pointed & (~points | (F.col("fk") != F.col("old_fk")))
        answered, live = meets | moved, meets
    else:
        answered, live = alive | F.col("was_there"), alive
    # A tombstone of an inner join comes from where the row was subscribed, with that right row's timestamp; a left
    # join unsubscribes silently and answers a delete itself.
    partner = exists if join.how == "inner" else meets
    moment = F.when(partner, F.greatest("timestamp", "found.timestamp")).otherwise(F.col("timestamp"))
    return changes.where(answered).select(
        "key",
        moment.alias("timestamp"),
        "partition",
        _trigger("left", "partition", "offset"),
        "left_hash",
        F.struct("order", F.lit(None).cast(changes.schema["key"].dataType).alias("fan_out")).alias("sequence"),
        "left",
        F.when(meets, F.col("found.right")).alias("right"),
        F.coalesce(live, F.lit(False)).alias("live"),
    )


def _answer_right(join: ForeignKeyJoin, updates: DataFrame, subscribed: DataFrame) -> DataFrame:
    left, right = subscribed.alias("l"), updates.alias("r")
    touched = right.join(
        left,
        (F.col("l.fk") == F.col("r.key"))
        & (F.col("l.order").isNull() | (F.col("l.order") < F.col("r.order")))
        & (F.col("l.until").isNull() | (F.col("r.order") < F.col("l.until"))),
    )
    live = F.lit(True) if join.how == "left" else F.col("right").isNotNull()
    return touched.select(
        F.col("l.key").alias("key"),
        F.col("r.timestamp").alias("timestamp"),
        F.col("l.partition").alias("partition"),
        _trigger("right", "r.partition", "r.offset"),
        "left_hash",
        F.struct(F.col("r.order").alias("order"), F.col("l.key").alias("fan_out")).alias("sequence"),
        "left",
        "right",
        live.alias("live"),
    )


def _trigger(side: str, partition: str, offset: str) -> Column:
    return F.struct(
        F.lit(side).alias("side"), F.col(partition).alias("partition"), F.col(offset).alias("offset")
    ).alias("trigger")
