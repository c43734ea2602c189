"""What every profile of the foreign-key join shares: its two sides in time, and the fan-out of a right change.

A right change is answered for every left row that points to its key: with joined rows, or where it is a deletion with
tombstones (inner) or left-null rows (left). The left rows that it meets are those whose interval contains its place
in the order; they are emitted in the order of their keys. A row's ``left_hash`` is the hash of the left value that it
was made for.

    left a {f}, b {f}, c {g}    right f = x at order 9      (a, x), (b, x)

Source: KIP-213; wiki page "Kafka Streams Join Semantics" (foreign-key join). Held by
``tests/joins/foreign_key/test_foreign_key.py`` and ``tests/joins/foreign_key/test_recorded.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochInputs
from rivermeet.joins.provenance import trigger_of
from rivermeet.joins.tables.as_of import holds_at, row_at
from rivermeet.joins.tables.versioned import forward_changes
from rivermeet.joins.tables.versions import add_pointers, build_timeline, timeline
from rivermeet.joins.values import join_values, key_type, null_of, with_record
from rivermeet.pipelines import ForeignKeyJoin


@dataclass(frozen=True)
class Sides:
    """Both sides in time. A change that waits for a commit is placed where the commit emits it.

    Attributes
    ----------
    versions
        Left rows of the changed keys, with ``fk``, ``left_hash``, ``until``, ``was_there``, ``old_fk``.
    standing
        Left rows as a right change meets them.
    rights
        Right rows before the epoch.
    updates
        Right changes as a look-up sees them.
    emitting
        Right changes as they fan out.
    """

    versions: DataFrame
    standing: DataFrame
    rights: DataFrame
    updates: DataFrame
    emitting: DataFrame


def sides(join: ForeignKeyJoin, inputs: EpochInputs) -> Sides:
    """The sides without a cache: every change is emitted when it comes."""
    lefts_before, changes = forward_changes(inputs, "left", join.left.history)
    rights_before, updates = forward_changes(inputs, "right", join.right.history)
    changes = inputs.keep_if_many(subscribe(join, changes, inputs))
    updates = inputs.keep_if_many(with_record(updates, "right"))
    lefts_before = subscribe(join, lefts_before, inputs)
    if join.semantics == "0.10.2":
        # There, subscriptions and not the rows decide what a right change meets.
        lefts = timeline(lefts_before, changes, "left", inputs)
    else:
        lefts = build_timeline(lefts_before, changes, updates, "left", inputs)
    return Sides(lefts.versions, lefts.standing, with_record(rights_before, "right"), updates, updates)


def subscribe(join: ForeignKeyJoin, records: DataFrame, inputs: EpochInputs) -> DataFrame:
    """Left records with ``left`` (NULL: deleted), ``left_hash`` and foreign key ``fk`` (NULL: none)."""
    hashed = records.select("*", F.when(F.col("value").isNotNull(), F.xxhash64("value")).alias("left_hash"))
    return add_pointers(hashed, "left", join.foreign_key, key_type(inputs.right))


def look_up_right(found: Sides, inputs: EpochInputs) -> DataFrame:
    """The left changes with the right row, as of their place in the order, of the key that they ask for.

    A change without a foreign key of its own asks for the one it replaced: its tombstone takes that row's timestamp.
    """
    changes = found.versions.where(F.col("order").isNotNull()).select("*", F.coalesce("fk", "old_fk").alias("asked"))
    return row_at(changes, found.rights, found.updates, "right", inputs)


def answer(changes: DataFrame, answered: Column, live: Column, partner: Column) -> DataFrame:
    """Rows of the left changes that are ``answered``; a ``partner``'s timestamp counts if it is later."""
    moment = F.when(partner, F.greatest("timestamp", "found.timestamp")).otherwise(F.col("timestamp"))
    meets = F.col("exists") & F.col("left").isNotNull() & F.col("fk").isNotNull()
    return changes.where(answered).select(
        "key",
        moment.alias("timestamp"),
        "partition",
        "commit",
        trigger_of("left"),
        "left_hash",
        F.struct("order", null_of("key").alias("fan_out")).alias("sequence"),
        "left",
        F.when(meets, F.col("found.right")).alias("right"),
        F.coalesce(live, F.lit(False)).alias("live"),
    )


def fan_out(join: ForeignKeyJoin, emitting: DataFrame, standing: DataFrame) -> DataFrame:
    """Rows of the right changes, each with its own timestamp, also where the left row is newer."""
    touched = emitting.alias("r").join(standing.alias("l"), (F.col("l.fk") == F.col("r.key")) & holds_at("l", "r"))
    live = F.lit(True) if join.how == "left" else F.col("right").isNotNull()
    return touched.select(
        F.col("l.key").alias("key"),
        F.col("r.timestamp").alias("timestamp"),
        F.col("l.partition").alias("partition"),
        F.col("r.commit").alias("commit"),
        trigger_of("right", "r.partition", "r.offset"),
        "left_hash",
        F.struct(F.col("r.order").alias("order"), F.col("l.key").alias("fan_out")).alias("sequence"),
        "left",
        "right",
        live.alias("live"),
    )


def with_values(join: ForeignKeyJoin, rows: DataFrame) -> DataFrame:
    """The rows as they are emitted."""
    value = F.when(F.col("live"), join_values(join.select))
    return rows.select("*", value.alias("value")).drop("left", "right", "live", "commit")
