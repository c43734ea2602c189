"""stream ⋈ global table: each stream record looks up one key in the whole table; the table never triggers.

``key`` maps a stream record to a key of the table. A null value is ignored; a mapped key that is null, or that the
table lacks, gives nothing in an inner join and a one-sided row in a left join. The row has the stream record's key
and timestamp.

    table  c1 Ann                 (loaded first)
    stream o1 {account: c1}       o1 Ann
    stream o2 {account: c9}       inner: nothing       left: o2 null
    table  c1 Eve                 nothing: earlier rows stay as they are

Profile 0.10.2 ignores a record whose mapped key is null also in a left join. What is ignored for a null key is in the
late table.

``bootstrap="epoch"`` loads all of an epoch's updates of the table before its stream records, as an instance loads a
global table before it starts; with ``"timestamp"`` each record sees the table as of its place in the order.

Source: KIP-99 (global tables), KIP-962 (null keys), wiki page "Kafka Streams Join Semantics". Held by
``tests/joins/stream_global/test_stream_global.py`` and ``test_recorded.py`` beside it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.late import without_key
from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.provenance import trigger_of
from rivermeet.joins.tables.as_of import holds_at
from rivermeet.joins.values import join_values, key_type, nothing_like, with_mapped_key, with_record
from rivermeet.pipelines import StreamGlobalJoin
from rivermeet.records.changelog import RECORD


def state(join: StreamGlobalJoin) -> StateRead:
    """The table as it is loaded: after the epoch's updates, or before them where those are interleaved."""
    return {"right": "after" if join.bootstrap == "epoch" else "before"}


def compute(join: StreamGlobalJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    facts = with_record(inputs.left.where(F.col("value").isNotNull()), "left")
    facts = with_mapped_key(facts, "left", join.key, key_type(inputs.right), "mapped")
    keyless = facts.where(F.col("mapped").isNull())
    if join.semantics == "0.10.2":
        facts = facts.where(F.col("mapped").isNotNull())
    facts = facts.alias("l")
    versions = _versions(join, inputs).alias("r")
    found = (F.col("l.mapped") == F.col("r.key")) & holds_at("r", "l")
    matched = facts.join(versions, found, "inner" if join.how == "inner" else "left")
    rows = matched.select(
        F.col("l.key").alias("key"),
        F.col("l.timestamp").alias("timestamp"),
        F.col("l.partition").alias("partition"),
        trigger_of("left", "l.partition", "l.offset"),
        F.struct(F.col("l.order")).alias("sequence"),
        "left",
        "right",
    )
    answered = join.how != "inner" and join.semantics != "0.10.2"
    late = None if answered else without_key(keyless, F.lit("left"), F.to_json("value"))
    return EpochFrames(rows.select("*", join_values(join.select).alias("value")).drop("left", "right"), late)


def _versions(join: StreamGlobalJoin, inputs: EpochInputs) -> DataFrame:
    """``key``, ``right`` STRUCT, and where in the order it holds: from ``order`` on, up to ``until``."""
    unbounded = nothing_like(inputs.left, "order")
    if join.bootstrap == "epoch":
        loaded = with_record(inputs.table("right", "after"), "right")
        return loaded.select("key", "right", unbounded.alias("order"), unbounded.alias("until"))
    before = inputs.table("right", "before").select(*RECORD, unbounded.alias("order"))
    updates = inputs.right.where(F.col("key").isNotNull()).select(*RECORD, "order")
    both = with_record(before.unionByName(updates), "right")
    per_key = Window.partitionBy("key").orderBy(F.col("order").asc_nulls_first())
    versions = both.select("key", "right", "order", F.lead("order").over(per_key).alias("until"))
    return versions.where(F.col("right").isNotNull())
