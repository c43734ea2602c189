"""Versioned tables: which puts count, which of them are the latest of their key, and what a look-up at a time sees.

With x a put, O the highest timestamp put so far under any key of the partition, and a history of h ms:

- ``x.timestamp < O - h``: x is dropped.
- Otherwise x is a version of its key from its timestamp on, a tombstone too. It is the latest where no version of
  the key starts later; only the latest is forwarded to a join of tables.
- A look-up at t sees the version with the highest start <= t. The latest is seen for ever, an older one only while
  ``t >= O - h``.
- Kafka's slip: a delete at the very timestamp of the latest value takes the whole version away, itself included, where
  what is below it was already a tombstone (or nothing) when the value came.

h = 5 ms:

    put a@10       latest
    put b@7        kept, not latest: a look-up at 8 sees b
    put c@4        dropped: 4 < 10 - 5
    delete @12     latest; a look-up at 11 still sees a, one at 12 nothing

Without the slip a key's latest start is a running maximum. The slip undoes a run of puts at one timestamp, between
which nothing else of the key can start later than what is below them: without the run, the maximum would be
the same. So the slips alone are found by a fold over the key's puts, and only for keys where one is possible; all
else is windows over puts that no slip undid.

Source: KIP-889, KIP-914, released Kafka Streams 4.x (the slip). Held by ``tests/joins/table_table/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochInputs, Side
from rivermeet.joins.order import before_here, last_known, up_to_here
from rivermeet.joins.values import nothing_like, with_record
from rivermeet.records.changelog import RECORD

_CHANGE = (*RECORD, "order", "commit")
BEFORE = -1
"""``commit`` of what was there before the epoch."""


def before_the_epoch(records: DataFrame, inputs: EpochInputs) -> DataFrame:
    """Records of earlier epochs, or live rows of a table, in the shape of the epoch's: ``order`` is NULL."""
    return records.select(
        *RECORD, nothing_like(inputs.left, "order").alias("order"), F.lit(BEFORE).cast("bigint").alias("commit")
    )


def forward_changes(
    inputs: EpochInputs, side: Side, history: int | None, keys: DataFrame | None = None
) -> tuple[DataFrame, DataFrame]:
    """A table as it was before the epoch (live rows), and the epoch's changes of it that a join gets to see.

    Both have columns `RECORD`, ``order``, ``commit``. Without a history all changes with a key are forwarded.

    Parameters
    ----------
    keys
        Distinct values of ``key``: only these are wanted of the table.
    """
    records = inputs.records[side].where(F.col("key").isNotNull())
    if history is None:
        table = before_the_epoch(inputs.table(side, "before"), inputs)
        changes = records.select(*_CHANGE)
        return (table if keys is None else table.join(inputs.broadcast(keys), "key", "left_semi")), changes
    earlier = before_the_epoch(inputs.earlier(side).where(F.col("key").isNotNull()), inputs)
    both = _keep(_add_numbers(inputs, earlier.unionByName(records.select(*_CHANGE)), side, history))
    versions = mark_slips(both if keys is None else both.join(keys, "key", "left_semi"), inputs)
    per_key = Window.partitionBy("partition", "key").orderBy(*_arrival())
    earlier_ones = before_here(per_key)
    latest = F.max(F.when(F.col("undone").isNull(), F.col("timestamp"))).over(earlier_ones)
    passed = versions.select("*", latest.alias("latest")).where("latest IS NULL OR timestamp >= latest")
    accepted = inputs.keep(passed.select(*_CHANGE))
    last = F.max_by(F.struct(*(c for c in _CHANGE if c not in ("key", "partition"))), F.col("offset")).alias("last")
    # Of each partition: a key has a row in one of them, and may have ended at a higher offset of another one.
    table = accepted.where("order IS NULL").groupBy("key", "partition").agg(last).select("key", "partition", "last.*")
    return table.where("value IS NOT NULL").select(*_CHANGE), accepted.where("order IS NOT NULL")


def version_at(lookups: DataFrame, inputs: EpochInputs, history: int) -> DataFrame:
    """Look-ups with ``right``, the record that each sees (NULL: none) in the versioned table on the right.

    Parameters
    ----------
    lookups
        ``partition``, ``offset`` (together unique), ``mapped`` (the key), ``timestamp`` (the time looked at), ``at``
        (the place in the order from where it looks), and any others.
    """
    earlier = before_the_epoch(inputs.earlier("right"), inputs)
    puts = with_record(earlier.unionByName(inputs.right.select(*_CHANGE)), "right").drop("commit")
    asks = lookups.select("partition", "offset", F.col("mapped").alias("key"), "timestamp", F.col("at").alias("order"))
    both = (
        puts.where(F.col("key").isNotNull())
        .select("*", F.lit(True).alias("put"))
        .unionByName(asks.select("*", F.lit(False).alias("put")), allowMissingColumns=True)
    )
    observed = inputs.keep(_keep(_add_numbers(inputs, both, "right", history)))
    touched = asks.select("key").distinct()
    versions = inputs.keep(mark_slips(observed.where("put").join(touched, "key", "left_semi"), inputs))
    lasting = versions.where("undone IS NULL")
    found = inputs.keep(_find_latest(versions.unionByName(observed.where("NOT put"), allowMissingColumns=True)))
    past = _from_the_past(found.where("latest.timestamp > timestamp AND timestamp >= observed - history"), lasting)
    seen = F.when(F.col("latest.timestamp") <= F.col("timestamp"), F.col("latest.right")).otherwise(F.col("past"))
    answers = found.join(past, ["partition", "offset"], "left").select("partition", "offset", seen.alias("right"))
    return lookups.join(answers, ["partition", "offset"], "left")


def mark_slips(puts: DataFrame, inputs: EpochInputs) -> DataFrame:
    """Puts that were kept, with ``undone``: STRUCT<order> of the delete that left no trace of it; NULL where none.

    Parameters
    ----------
    puts
        Puts, one table's, with ``order`` (NULL: earlier epochs, there in the order of ``offset``).
    """
    puts = inputs.keep(puts)
    at_one_time = Window.partitionBy("partition", "key", "timestamp").orderBy(*_arrival())
    over_value = F.coalesce(F.lag(F.col("value").isNotNull()).over(at_one_time), F.lit(False))
    possible = puts.select("*", over_value.alias("over_value")).where("over_value AND value IS NULL")
    suspects = puts.join(possible.select("partition", "key").distinct(), ["partition", "key"], "left_semi")
    put = F.struct(
        F.col("order").isNotNull().alias("now"),
        "order",
        "offset",
        "timestamp",
        F.col("value").isNotNull().alias("live"),
    )
    histories = suspects.groupBy("partition", "key").agg(F.sort_array(F.collect_list(put)).alias("puts"))
    slips = histories.select("partition", F.explode(_slips(F.col("puts"))).alias("offset"))
    marked = puts.join(slips.select("*", F.lit(True).alias("slip")), ["partition", "offset"], "left")
    onwards = at_one_time.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    undone = F.first(F.when(F.col("slip"), F.struct("order")), ignorenulls=True).over(onwards)
    return marked.select("*", undone.alias("undone")).drop("slip")


def _slips(puts: Column) -> Column:
    """Offsets of the deletes that leave no trace, among a key's puts in order.

    ``latest``: where the latest value starts, NULL if there is none; ``end``: where the past before it ends.
    """
    nothing = F.lit(None).cast("bigint")
    start = F.struct(nothing.alias("latest"), nothing.alias("end"), F.array().cast("array<bigint>").alias("slips"))

    def step(state: Column, put: Column) -> Column:
        latest, end, t, live = state["latest"], state["end"], put["timestamp"], put["live"]
        there, open_before = latest.isNotNull(), end.isNull()
        past = (there & (t < latest)) | (~there & ~open_before & (t < end))
        slips = there & (t == latest) & ~live & (open_before | (end < latest))
        return F.struct(
            F.when(past, latest).when(live, t).alias("latest"),
            F.when(past, F.when(there & (open_before | (end <= t)), latest).otherwise(end))
            .when(there, F.when(t > latest, t).otherwise(end))
            .otherwise(F.when(live, end).otherwise(t))
            .alias("end"),
            F.when(slips, F.concat(state["slips"], F.array(put["offset"]))).otherwise(state["slips"]).alias("slips"),
        )

    return F.aggregate(puts, start, step)["slips"]


def _arrival() -> tuple[Column, Column]:
    return F.col("order").asc_nulls_first(), F.col("offset").asc()


def _add_numbers(inputs: EpochInputs, records: DataFrame, side: Side, history: int) -> DataFrame:
    return inputs.numbers(records, **{f"{side}_history": history}).withColumnRenamed(f"{side}_history", "history")


def _keep(records: DataFrame) -> DataFrame:
    """Puts that are not dropped, and look-ups (``put`` is false), with ``observed``, O as it is then."""
    so_far = up_to_here(Window.partitionBy("partition").orderBy(*_arrival()))
    put = F.col("put") if "put" in records.columns else F.lit(True)
    # A put that is dropped would not raise O, and as a maximum it cannot.
    observed = records.select("*", F.max(F.when(put, F.col("timestamp"))).over(so_far).alias("observed"))
    return observed.where(~put | (F.col("timestamp") >= F.col("observed") - F.col("history")))


def _find_latest(both: DataFrame) -> DataFrame:
    """Look-ups with ``latest`` STRUCT<timestamp, right>: the version that starts last, as of their place in the order.

    A run of puts that a slip is going to undo is the latest from its first put to the slip.
    """
    so_far = up_to_here(Window.partitionBy("partition", "key").orderBy(*_arrival()))
    version = F.struct("timestamp", "right")
    lasting = F.col("put") & F.col("undone").isNull()
    run = last_known(F.when(F.col("put") & ~lasting, F.struct("timestamp", "right", "undone")), so_far)
    return (
        both.select("*", F.max_by(version, F.when(lasting, _start())).over(so_far).alias("lasting"))
        .select("*", run.alias("run"))
        .where("NOT put")
        .select(
            "*",
            F.when(F.col("run.undone.order") > F.col("order"), F.struct("run.timestamp", "run.right"))
            .otherwise(F.col("lasting"))
            .alias("latest"),
        )
        .select("partition", "offset", "key", "timestamp", "order", "observed", "history", "latest")
    )


def _from_the_past(asks: DataFrame, versions: DataFrame) -> DataFrame:
    """``past``: of the versions there at an ask's place in the order, the one with the highest start <= its time."""
    ask, version = asks.alias("a"), versions.select("*", _start().alias("start")).alias("v")
    there = F.col("v.order").isNull() | (F.col("v.order") < F.col("a.order"))
    pairs = ask.join(
        version,
        (F.col("a.partition") == F.col("v.partition"))
        & (F.col("a.key") == F.col("v.key"))
        & (F.col("v.timestamp") <= F.col("a.timestamp"))
        & there,
    )
    found = F.max_by(F.col("v.right"), F.col("v.start")).alias("past")
    return pairs.groupBy(F.col("a.partition").alias("partition"), F.col("a.offset").alias("offset")).agg(found)


def _start() -> Column:
    """Versions by their start; of equal ones the last put remains."""
    return F.struct(F.col("timestamp"), F.col("order").isNotNull().alias("now"), F.col("order"), F.col("offset"))
