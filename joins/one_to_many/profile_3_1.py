"""table ⋈ the many rows of another table that refer to it: inner, keyed by both keys.

The left table is the one side; the foreign key of a right row is an expression over it.

| change | rows |
|---|---|
| right row refers to a left row that is there | joined row |
| right row no longer refers to the left row that it joined, or is deleted | tombstone under the old pair, first |
| left row put, or deleted | for each right row that refers to it, by right key: joined row, or tombstone |

A tombstone is only emitted where there is a row:

    left  a0 A@5           nothing: no row refers to a0
    right b0 {a0}@3        ((a0, b0), A)@5: the later of the two timestamps
    right b0 {a1}@6        ((a0, b0), null)@6, and no row of (a1, b0): a1 is not there
    left  a1 B@2           ((a1, b0), B)@2: a left change has its own timestamp

A row is in the partition of its left row. A cache emits the net change per key and commit.

Source: KIP-213, the original proposal (one-to-many join). Held by ``tests/joins/one_to_many/test_one_to_many.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs
from rivermeet.joins.provenance import trigger_of
from rivermeet.joins.tables.as_of import holds_at, row_at
from rivermeet.joins.tables.cache import net_changes, select_emitted_before
from rivermeet.joins.tables.versioned import forward_changes
from rivermeet.joins.tables.versions import add_pointers, build_timeline, read_state, versions_of
from rivermeet.joins.values import join_values, key_type, null_of, with_record
from rivermeet.pipelines import OneToManyJoin

ENDS, BEGINS = 0, 1
READS_ONCE = True
state = read_state


def compute(join: OneToManyJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    ones_before, one_changes = forward_changes(inputs, "left", join.left.history)
    manies_before, many_changes = forward_changes(inputs, "right", join.right.history)
    ones = inputs.keep_if_many(with_record(one_changes, "left").drop("value"))
    changes = inputs.keep_if_many(add_pointers(many_changes, "right", join.foreign_key, key_type(inputs.left)))
    manies_before = add_pointers(manies_before, "right", join.foreign_key, key_type(inputs.left))
    manies = build_timeline(manies_before, changes, ones, "right", inputs)
    ones_before = with_record(ones_before, "left").drop("value")
    versions = inputs.keep_if_many(versions_of(ones_before, ones, "left", inputs, points=False))
    emitting = versions.where("order IS NOT NULL")
    rows = _answer_many(manies.versions, ones_before, ones, inputs).unionByName(
        _answer_one(emitting.where(F.col("left").isNotNull() | F.col("was_there")), manies.standing)
    )
    if join.cache is not None:
        rows = inputs.keep(rows)
        rows = net_changes(rows, select_emitted_before(inputs.emitted(None), rows))
    value = F.when(F.col("live"), join_values(join.select))
    return EpochFrames(rows.select("*", value.alias("value")).drop("left", "right", "live", "commit"))


def _answer_many(versions: DataFrame, before: DataFrame, updates: DataFrame, inputs: EpochInputs) -> DataFrame:
    """Rows of right changes: the end of the row under the old reference, and the row under the new one."""
    changes = versions.where("order IS NOT NULL")
    moved = changes.where(F.col("old_fk").isNotNull() & ~F.col("old_fk").eqNullSafe(F.col("fk")))
    asking = moved.select("*", F.col("old_fk").alias("asked"), F.lit(ENDS).alias("step")).unionByName(
        changes.where(F.col("fk").isNotNull()).select("*", F.col("fk").alias("asked"), F.lit(BEGINS).alias("step"))
    )
    found = row_at(asking, before, updates, "left", inputs).where("exists")
    live = F.col("step") == BEGINS
    return found.select(
        _pair("asked", "key"),
        F.greatest("timestamp", "found.timestamp").alias("timestamp"),
        F.col("found.partition").alias("partition"),
        "commit",
        trigger_of("right"),
        F.struct("order", "step", null_of("key").alias("fan_out")).alias("sequence"),
        F.when(live, F.col("found.left")).alias("left"),
        F.when(live, F.col("right")).alias("right"),
        live.alias("live"),
    )


def _answer_one(emitting: DataFrame, standing: DataFrame) -> DataFrame:
    """Rows of left changes: of every right row that refers to the changed key then."""
    touched = emitting.alias("l").join(standing.alias("r"), (F.col("r.fk") == F.col("l.key")) & holds_at("r", "l"))
    return touched.select(
        _pair("l.key", "r.key"),
        F.col("l.timestamp").alias("timestamp"),
        F.col("l.partition").alias("partition"),
        F.col("l.commit").alias("commit"),
        trigger_of("left", "l.partition", "l.offset"),
        F.struct(F.col("l.order").alias("order"), F.lit(BEGINS).alias("step"), F.col("r.key").alias("fan_out")).alias(
            "sequence"
        ),
        "left",
        "right",
        F.col("left").isNotNull().alias("live"),
    )


def _pair(one: str, many: str) -> Column:
    """The key of a row: the left key's columns, then the right key's."""
    return F.struct(f"{one}.*", f"{many}.*").alias("key")
