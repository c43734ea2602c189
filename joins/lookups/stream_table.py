"""stream ⋈ table: each stream record is joined with what the table has under its key; the table never triggers.

``key`` maps a stream record to the table's key; by default it is the record's own. The row has the stream record's key
and timestamp. A null value is ignored; where the table has nothing there is no row (inner), or a one-sided one (left).

    left  k A@3       A-null @3
    right k a@9       nothing
    left  k B@5       B-a @5: the value of now, though it is newer than the record
    right k null@6    nothing

A versioned table is looked up as of the record's timestamp, so that B@5 would give B-null; with a ``grace`` the record
waits first (``joins/lookups/stream_table_grace.py``).

| key looked up is null | inner | left |
|---|---|---|
| 3.1, kafka-4 | nothing | one-sided row, at once |
| 0.10.2, 0.10.0 | nothing | nothing |

In 0.10.0 there is only the left join, and null values take part in it.

What gives nothing for its null key is in the late table, with that reason.

Source: wiki page "Kafka Streams Join Semantics" (KStream-KTable join), KIP-914, KIP-923, KIP-962. Held by
``tests/joins/tables/test_recorded_tables.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from joins.late import without_key
from joins.lookups.stream_table_grace import released
from joins.operator import EpochFrames, EpochInputs, StateRead
from joins.tables.versioned import before_the_epoch, version_at
from joins.values import joined_value, key_type, with_mapped_key, with_record
from pipelines import StreamTableJoin
from records.changelog import field_names


def state(join: StreamTableJoin) -> StateRead:
    """The table before the epoch; a versioned one's whole history; with a grace the records that wait."""
    if join.right.history is None:
        return {"right": "before"}
    return {"right": "earlier"} if join.grace is None else {"left": "open", "right": "earlier"}


def compute(join: StreamTableJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    facts = inputs.keep(_facts(join, inputs.left, inputs))
    keyed = facts.where(F.col("mapped").isNotNull())
    at_once = facts.withColumns({"at": F.col("order"), "moved_by": F.col("offset")})
    history = join.right.history
    answered = join.how != "inner" and join.semantics in ("3.1", "kafka-4")
    if history is None:
        found = _now(at_once.where(F.col("mapped").isNotNull()), inputs)
    elif join.grace is None:
        found = version_at(at_once.where(F.col("mapped").isNotNull()), inputs, history)
    else:
        waiting = _facts(join, inputs.open_records("left", join.grace), inputs).where(F.col("mapped").isNotNull())
        found = version_at(inputs.keep(released(keyed, waiting, inputs, join.grace)), inputs, history)
    if join.how == "inner":
        found = found.where(F.col("right").isNotNull())
    elif answered:
        # Nothing can be looked up, now or later, so that there is nothing to wait for either.
        found = found.unionByName(at_once.where(F.col("mapped").isNull()), allowMissingColumns=True)
    trigger = F.struct(F.lit("left").alias("side"), F.col("partition"), F.col("moved_by").alias("offset"))
    rows = found.select(
        "key",
        joined_value(join.select).alias("value"),
        "timestamp",
        "partition",
        trigger.alias("trigger"),
        # Records that leave together do so by timestamp and key; only then comes the order of arrival.
        F.struct("at", "timestamp", "mapped", "order", "offset").alias("sequence"),
    )
    late = None if answered else without_key(facts.where(F.col("mapped").isNull()), F.lit("left"), F.to_json("value"))
    return EpochFrames(rows, late, timed=() if join.grace is None else (keyed,))


def _facts(join: StreamTableJoin, records: DataFrame, inputs: EpochInputs) -> DataFrame:
    """Stream records that take part: ``left``, and ``mapped``, the key to look up; ``order`` is NULL if they waited."""
    if "order" not in records.columns:
        records = before_the_epoch(records, inputs)
    if join.semantics != "0.10.0":
        records = records.where(F.col("value").isNotNull())
    sided = with_record(records, "left").withColumn("__asked", _whole(records))
    return with_mapped_key(sided, "__asked", join.key, key_type(inputs.right), "mapped").drop("__asked", "commit")


def _whole(records: DataFrame) -> Column:
    """The record as expressions see it, also where its value is null: its key may be looked up."""
    return F.struct(
        *(F.col(part).getField(c).alias(c) for part in ("key", "value") for c in field_names(records, part)),
        F.col("timestamp").alias("_timestamp"),
    )


def _now(lookups: DataFrame, inputs: EpochInputs) -> DataFrame:
    """Look-ups with ``right``: the table's record as of their place in the order."""
    touched = lookups.select(F.col("mapped").alias("key")).distinct()
    table = before_the_epoch(
        inputs.table("right", "before").join(inputs.broadcast(touched), "key", "left_semi"), inputs
    )
    updates = inputs.right.where(F.col("key").isNotNull()).select(*table.columns)
    rights = with_record(table.unionByName(updates), "right").select(
        F.col("key").alias("mapped"), F.col("order").alias("at"), F.struct("right").alias("found")
    )
    so_far = (
        Window.partitionBy("mapped")
        .orderBy(F.col("at").asc_nulls_first())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    # The last record of the table, also where it is a tombstone: `found` is never NULL for one.
    found = F.last("found", ignorenulls=True).over(so_far)
    return (
        lookups.unionByName(rights, allowMissingColumns=True)
        .withColumn("found", found)
        .where(F.col("offset").isNotNull())
        .withColumn("right", F.col("found.right"))
        .drop("found")
    )
