"""The cache of a foreign-key join's tables, as Kafka Streams commits it (profiles "kafka-4" and "0.10.2").

A change of a cached side waits for the commit: one per key, the last, in the order of the last writes. A commit emits
first the right changes, then the left ones, each from the state of the last commit to the current one; the other side
is looked up as it is now. So a fan-out meets the left rows of the last commit, and of those only the ones whose value
is still the same. A right key that was absent and is absent again is not emitted. One commit each:

    left k f|1@1, right f x@2     (f|1, x)@2, once: the fan-out of f does not know k yet
    left k f|2@3, right f y@4     (f|2, y)@4, once: the fan-out answers for f|1, which is stale
    left k f|2@5, right f z@6     (f|2, z)@6, twice: an equal value is not stale

In an inner join this loses the tombstone of a row whose right row is deleted in the commit that changes the left row.
The trigger of a row is the last record of the commit. A versioned side has no cache: its changes are emitted at once.
A ``materialized`` result is cached too: what was emitted before the commit comes first, the last row per key; a
tombstone is kept back where no row is.

Expressed as order: a change that waits is placed at (commit, 1, side, place), one that is only looked up at
(commit, 0, 0, place), and the join is the one without a cache.

Source: released Kafka Streams 4.x and 3.0 (record caches; recorded answers). Held by
``tests/joins/foreign_key/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.foreign_key.rows import Sides, subscribe
from rivermeet.joins.operator import EpochInputs
from rivermeet.joins.order import LEFT, RIGHT, last_known, up_to_here
from rivermeet.joins.tables.cache import net_changes, select_emitted_before
from rivermeet.joins.tables.versioned import forward_changes
from rivermeet.joins.tables.versions import timeline
from rivermeet.joins.values import nothing_like, with_record
from rivermeet.pipelines import ForeignKeyJoin

_EMITTED = ("key", "order", "left", "left_hash", "fk", "partition")


def sides(join: ForeignKeyJoin, inputs: EpochInputs) -> Sides:
    """The sides with every change at its place: where it is emitted, or where it is looked up."""
    lefts_before, changes = _with_places(*forward_changes(inputs, "left", join.left.history))
    rights_before, updates = _with_places(*forward_changes(inputs, "right", join.right.history))
    changes = inputs.keep(subscribe(join, changes, inputs))
    updates = inputs.keep(with_record(updates, "right"))
    lefts_before = inputs.keep(subscribe(join, lefts_before, inputs))
    rights_before = with_record(rights_before, "right")
    waits = join.left.history is None
    lefts = timeline(lefts_before, inputs.keep(_select_waiting(changes, LEFT)) if waits else changes, "left", inputs)
    if not waits:
        standing = lefts.standing
    elif join.semantics == "0.10.2":
        # Its subscriptions show which answers are stale: they meet the current rows.
        standing = timeline(lefts_before, changes, "left", inputs).standing
    else:
        fresh = _fresh(lefts.versions, changes)
        standing = lefts.untouched.select("until", *_EMITTED).unionByName(fresh)
    emitting = (
        updates if join.right.history is not None else _select_emitted(rights_before, _select_waiting(updates, RIGHT))
    )
    return Sides(lefts.versions, standing, rights_before, updates, emitting)


def _with_places(before: DataFrame, changes: DataFrame) -> tuple[DataFrame, DataFrame]:
    changes = changes.withColumn("order", _place(0, F.lit(0)))
    return before.withColumn("order", nothing_like(changes, "order")), changes


def _place(phase: int, side: Column, place: str = "order") -> Column:
    return F.struct(
        F.col("commit").alias("commit"),
        F.lit(phase).alias("phase"),
        side.alias("side"),
        F.col(place).alias("place"),
    )


def _select_waiting(changes: DataFrame, side: int) -> DataFrame:
    """The last change per key and commit, where the commit emits it."""
    last = Window.partitionBy("key", "commit").orderBy(F.col("order").desc())
    kept = changes.select("*", F.row_number().over(last).alias("__nth")).where("__nth = 1").drop("__nth")
    return kept.withColumn("order", _place(1, F.lit(RIGHT - side), "order.place"))


def _fresh(emitted: DataFrame, changes: DataFrame) -> DataFrame:
    """The rows as emitted, as long as the value that is there now is equal."""
    row = F.struct(*_EMITTED[2:]).alias("emitted")
    events = emitted.select("key", "order", "left_hash", row).unionByName(
        changes.select("key", "order", "left_hash"), allowMissingColumns=True
    )
    per_key = Window.partitionBy("key").orderBy(F.col("order").asc_nulls_first())
    so_far = up_to_here(per_key)
    lasting = events.withColumns({"emitted": last_known("emitted", so_far), "until": F.lead("order").over(per_key)})
    equal = F.col("left_hash") == F.col("emitted.left_hash")
    return lasting.where(equal).select("until", "key", "order", "emitted.*")


def _select_emitted(before: DataFrame, changes: DataFrame) -> DataFrame:
    """Right changes without those from absent to absent."""
    touched = before.join(changes.select("key").distinct(), "key", "left_semi").unionByName(changes)
    per_key = Window.partitionBy("key").orderBy(F.col("order").asc_nulls_first())
    was_there = F.coalesce(F.lag(F.col("right").isNotNull()).over(per_key), F.lit(False))
    changed = F.col("right").isNotNull() | F.col("was_there")
    return (
        touched.select("*", was_there.alias("was_there")).where(F.col("order").isNotNull() & changed).drop("was_there")
    )


def commit_rows(join: ForeignKeyJoin, inputs: EpochInputs, rows: DataFrame) -> DataFrame:
    """The rows as commits emit them."""
    at_commit = F.col("sequence.order.phase") == 1
    if join.materialized:
        # What waited is emitted together, each other row by itself.
        step = F.struct("sequence.order.commit", F.when(at_commit, F.col("sequence")).alias("row"))
        rows = net_change(inputs, rows.withColumn("commit", step))
        at_commit = F.lit(True)
    joined = rows.join(
        F.broadcast(_last_records(inputs)),
        (F.col("trigger.partition") == F.col("__partition")) & (F.col("sequence.order.commit") == F.col("__commit")),
        "left",
    )
    trigger = F.when(at_commit, F.col("__last")).otherwise(F.col("trigger"))
    return joined.withColumn("trigger", trigger).drop("__partition", "__commit", "__last")


def net_change(inputs: EpochInputs, rows: DataFrame) -> DataFrame:
    """The last row per key and commit, tombstones only of rows that were there: the cache of profile "3.1"."""
    rows = inputs.keep(rows)
    return net_changes(rows, select_emitted_before(inputs.emitted(None), rows))


def _last_records(inputs: EpochInputs) -> DataFrame:
    """The last record of each partition and commit, one that is ignored too."""
    columns = ("side", "partition", "offset", "commit", "order")
    sided = [inputs.records[s].select("*", F.lit(s).alias("side")).select(*columns) for s in inputs.records]
    last = F.max_by(F.struct("side", "partition", "offset"), F.col("order")).alias("__last")
    every = sided[0].unionByName(sided[1])
    return every.groupBy(F.col("partition").alias("__partition"), F.col("commit").alias("__commit")).agg(last)
