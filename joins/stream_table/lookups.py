"""What the profiles of stream ⋈ table share: the keys that stream records look up, and the rows of what is found.

record  o1 {account: c1}@5      mapped c1       right (c1, Ann), or NULL
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.late import without_key
from rivermeet.joins.operator import EpochFrames, EpochInputs
from rivermeet.joins.provenance import trigger_of
from rivermeet.joins.tables.as_of import row_at
from rivermeet.joins.tables.versioned import before_the_epoch
from rivermeet.joins.values import join_values, key_type, record, with_mapped_key, with_record
from rivermeet.pipelines import StreamTableJoin


def with_key_to_look_up(join: StreamTableJoin, records: DataFrame, inputs: EpochInputs) -> DataFrame:
    """Stream records with what a look-up needs.

    Returns
    -------
    DataFrame
        The records, with ``mapped`` (the key to look up, or NULL). ``order`` is NULL for a record of an earlier epoch.
    """
    if "order" not in records.columns:
        records = before_the_epoch(records, inputs)
    # Also where its value is null: its key may be looked up.
    sided = records.select("*", record().alias("__asked"))
    return with_mapped_key(sided, "__asked", join.key, key_type(inputs.right), "mapped").drop("__asked", "commit")


def at_once(records: DataFrame) -> DataFrame:
    """Records that look up from their own place: ``at`` is their ``order``, ``moved_by`` (the trigger) their offset."""
    return records.select("*", F.col("order").alias("at"), F.col("offset").alias("moved_by"))


def look_up(join: StreamTableJoin, lookups: DataFrame, inputs: EpochInputs) -> DataFrame:
    """Look-ups with ``right``: the table's record as of their place in the order; NULL if it has none."""
    before = with_record(before_the_epoch(inputs.table("right", "before"), inputs), "right")
    updates = with_record(inputs.right.where(F.col("key").isNotNull()), "right")
    asking = lookups.select("*", F.col("mapped").alias("asked"))
    # A record's own key has its row in the record's partition (`equal_keys_meet`).
    within = ("partition",) if "right" in join.by_partition else ()
    found = row_at(asking, before, updates, "right", inputs, *within)
    return found.select("*", F.col("found.right").alias("right")).drop("asked", "found", "exists")


def rows_of(
    join: StreamTableJoin, found: DataFrame, *timed: DataFrame, without: DataFrame | None = None
) -> EpochFrames:
    """Columns of `EpochFrames`: a row for each look-up that is left.

    Parameters
    ----------
    timed
        Frames whose highest timestamp is stream time.
    without
        Records without a row, because they have no key to look up.
    """
    sequence = F.struct("order")
    if join.grace is not None:
        # Records that leave together do so by timestamp and key; only then comes the order of arrival.
        sequence = F.struct("at", "timestamp", "mapped", "order", "offset")
    rows = with_record(found, "left").select(
        "key",
        join_values(join.select).alias("value"),
        "timestamp",
        "partition",
        trigger_of("left", offset="moved_by"),
        sequence.alias("sequence"),
    )
    late = None if without is None else without_key(without, F.lit("left"), F.to_json("value"))
    return EpochFrames(rows, late, timed=timed)
