"""table → table under another key: each change takes the old row out of its group and puts the new one into its own.

One change gives one row where the group stays, and two where the row moves: the group that it leaves, then the one
that it joins. A group that has no row left ends with a tombstone. A row whose group key is null (in any part) is in no
group. Every row has the timestamp of its change. Of a versioned table only the latest version of a row counts. Sum of
n by g:

    a {g: x, n: 1}    x 1
    b {g: x, n: 5}    x 6
    a {g: y, n: 2}    x 5, y 2
    a deleted         y null

A group's value after a change is that of the versions of its rows that are valid then, never a difference: a maximum
cannot be subtracted from, and a sum of DOUBLE does not come back. Changes of a group are numbered from 0; a version is
valid from its own number to that of the change that ends it, and falls into at most two aligned blocks of
1, 2, 4, … numbers each. So a group with n changes is aggregated over n log n blocks, and each change asks for the
log n blocks that contain it. Rows that the epoch does not touch form a separate block (level -1).

Source: wiki page "Early joins" (KTable aggregate), KIP-914, released Kafka Streams (KTable.groupBy); a row that
stays in its group gives one row, as in 3.5 and newer. Held by ``tests/joins/aggregates/test_table_aggregate.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.aggregates.running import HAS_VALUE, add_arguments, compute_parts, merge
from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.order import up_to_here
from rivermeet.joins.provenance import trigger_of
from rivermeet.joins.stateless.one_input import add_expressions
from rivermeet.joins.stateless.select_key import partition_of
from rivermeet.joins.tables.versioned import forward_changes
from rivermeet.pipelines import TableAggregate

BLOCK = ("group", "level", "block")
CHANGE = ("group", "order", "timestamp", "partition", "offset", "arrives")

READS_ONCE = True


def state(operation: TableAggregate) -> StateRead:
    """The table as the epoch found it; of a versioned one its whole history."""
    return {"left": "before" if operation.input.history is None else "earlier"}


def compute(operation: TableAggregate, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    before, updates = forward_changes(inputs, "left", operation.input.history)
    changed = inputs.broadcast(updates.select("key").distinct())
    touched = _group(operation, before.join(changed, "key", "left_semi").unionByName(updates))
    changes = inputs.keep(_number(_changes(touched)))
    affected = inputs.broadcast(changes.where(F.col("order").isNotNull()).select("group").distinct())
    untouched = _group(operation, before.join(changed, "key", "left_anti")).join(affected, "group", "left_semi")
    aggregated = _per_block(operation, changes, untouched)
    value = merge(operation.aggregations, aggregated.schema)
    asked = changes.where(F.col("order").isNotNull()).select(*CHANGE, F.explode(_blocks_around()).alias("at"))
    answered = (
        asked.select(*CHANGE, "at.*")
        .join(aggregated, list(BLOCK), "left")
        .groupBy(*CHANGE)
        .agg(value.alias("value"), F.sum("rows").alias("rows"))
    )
    return EpochFrames(
        answered.select(
            F.col("group").alias("key"),
            F.when(F.col("rows") > 0, F.col("value")).alias("value"),
            "timestamp",
            partition_of(F.col("group"), operation.partitions).alias("partition"),
            trigger_of("left"),
            F.struct("order", "arrives").alias("sequence"),
        )
    )


def _group(operation: TableAggregate, records: DataFrame) -> DataFrame:
    """Records with ``group`` (NULL: none) and ``arguments``."""
    mapper = {column: f"CAST(({e.sql}) AS {e.type})" for column, e in operation.key.items()}
    mapped = add_arguments(add_expressions(records, mapper, "mapped", HAS_VALUE), operation.aggregations)
    whole = F.lit(True)
    for column in operation.key:
        whole = whole & F.col("mapped").getField(column).isNotNull()
    return mapped.select("*", F.when(whole, F.col("mapped")).alias("group")).drop("value", "mapped")


def _changes(touched: DataFrame) -> DataFrame:
    """Each record once per group that it changes, leaving before arriving; rows of before the epoch only arrive."""
    per_key = Window.partitionBy("key").orderBy(F.col("order").asc_nulls_first())
    moved = F.col("old").isNotNull() & ~F.col("old").eqNullSafe(F.col("group"))
    leaves = F.when(moved, F.struct(F.col("old").alias("group"), F.lit(False).alias("arrives")))
    arrives = F.when(F.col("group").isNotNull(), F.struct(F.col("group"), F.lit(True).alias("arrives")))
    return (
        touched.select("*", F.lag("group").over(per_key).alias("old"))
        .select("*", F.explode(F.array_compact(F.array(leaves, arrives))).alias("change"))
        .drop("group", "old")
        .select("*", "change.*")
        .drop("change")
    )


def _number(changes: DataFrame) -> DataFrame:
    """Changes with their number in their group, ``at``, and that of the change that ends what arrives, ``until``."""
    first = F.col("order").asc_nulls_first()
    upto = Window.partitionBy("group").orderBy(first, "partition", "offset")
    upto = up_to_here(upto)
    of_key = Window.partitionBy("group", "key").orderBy(first)
    return (
        changes.select("*", (F.count("order").over(upto) - 1).alias("at"))
        .select("*", F.count("order").over(Window.partitionBy("group")).alias("count"))
        .select("*", F.coalesce(F.lead("at").over(of_key), F.col("count")).alias("until"))
        .withColumn("at", F.greatest("at", F.lit(0)))
        .select("*", F.sequence(F.lit(0), F.length(F.bin("count")).cast("int")).alias("levels"))
    )


def _per_block(operation: TableAggregate, changes: DataFrame, untouched: DataFrame) -> DataFrame:
    """What the versions in each block come to: `BLOCK`, the parts of the aggregations, ``rows``."""
    versions = changes.where("arrives").select("group", "arguments", F.explode(_blocks_within()).alias("of"))
    others = untouched.select("group", "arguments", _block(F.lit(-1), F.lit(0).cast("bigint")).alias("of"))
    return (
        versions.unionByName(others)
        .select("group", "of.*", "arguments")
        .groupBy(*BLOCK)
        .agg(*compute_parts(operation.aggregations), F.count("*").alias("rows"))
    )


def _block(level: Column, block: Column) -> Column:
    return F.struct(level.alias("level"), block.alias("block"))


def _blocks_within() -> Column:
    """The largest aligned blocks that cover ``at`` (included) to ``until`` (excluded)."""

    def of_level(level: Column) -> Column:
        # In numbers of 2^level changes: what is left of the range between its first and last whole blocks.
        width = F.call_function("shiftleft", F.lit(1).cast("bigint"), level)
        start = F.call_function("shiftright", F.col("at") + width - 1, level)
        end = F.call_function("shiftright", F.col("until"), level)
        odd_start, odd_end = F.pmod(start, F.lit(2)) == 1, F.pmod(end, F.lit(2)) == 1
        return F.array_compact(
            F.array(
                F.when((start < end) & odd_start, _block(level, start)),
                F.when((start < end) & odd_end, _block(level, end - 1)),
            )
        )

    return F.flatten(F.transform("levels", of_level))


def _blocks_around() -> Column:
    """The blocks that contain the change, one of each size, and that of the untouched rows."""
    of_level = F.transform("levels", lambda level: _block(level, F.call_function("shiftright", F.col("at"), level)))
    return F.concat(F.array(_block(F.lit(-1), F.lit(0).cast("bigint"))), of_level)
