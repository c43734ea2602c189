"""Values that an update omits, because they are large (TOAST) and were not changed: the key's row keeps them.

| record of key 1 | ``debezium_absent`` | ``note`` becomes |
|---|---|---|
| the changelog's last one: note "long" | | |
| u, n 2 | note | "long", from the changelog |
| u, note "other" | | "other" |
| u, n 3 | note | "other", from the same epoch |
| d, then c, note "new", then u, n 4 | note | "new" |
| u of key 9, which has no row, or c after an update of the key | note | none: a dead letter |
| u, rates null, an array of a type that has no marker | ?rates | null if the row has none, else a dead letter |

A value column that is the plain column keeps its value. An expression over it, a key, a filter or a time cannot be
computed without it: also a dead letter. With `REPLICA IDENTITY FULL` the database sends all values. Held by
``tests/infra/sources/debezium/test_topics.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermeet.infra.sources.debezium.values import DOUBTFUL
from rivermeet.pipelines import Debezium, Expr, Source
from rivermeet.pipelines.expressions import quote
from rivermeet.records.type_text import type_text

ABSENT = "debezium_absent"
_NO_MARKER = "as is a large value of its type that was not changed"
_CURE = "after ALTER TABLE … REPLICA IDENTITY FULL the database sends it"


def with_kept_values(parsed: DataFrame, source: Source, earlier: DataFrame | None) -> DataFrame:
    """Rows from `to_records` with `ABSENT`, with the kept values filled in; dead if there are none.

    ``earlier`` are the changelog's records before the epoch, with ``key``, ``value``, ``epoch`` and ``offset``.
    """
    kept = _find_kept(source)
    absent, good = F.col(ABSENT), F.isnull("reason") & ~F.col("excluded")
    # If the value is null for another reason than a tombstone, the row is already dead.
    gone = good & F.isnull("value")
    known = {
        column: F.when(
            good & ~gone & ~_has(absent, of) & ~_has(absent, DOUBTFUL + of),
            F.struct(F.col("value").getField(column).alias("v")),
        )
        for column, of in kept.items()
    }
    struct = parsed.schema["value"].dataType
    assert isinstance(struct, T.StructType)
    rows = parsed.select("*", F.lit(1).alias("new_"), gone.alias("gone_"), _struct(known).alias("known_"))
    lacking = rows.where(good & (F.size(absent) > 0)).select("key").distinct()
    if earlier is not None and kept:
        rows = rows.unionByName(_last(earlier, lacking, kept, struct), allowMissingColumns=True)
    upto = Window.partitionBy("key").orderBy("new_", "sequence").rowsBetween(Window.unboundedPreceding, 0)
    lives = rows.select("*", F.sum(F.col("gone_").cast("int")).over(upto).alias("life_"))
    of_life = Window.partitionBy("key", "life_").orderBy("new_", "sequence").rowsBetween(Window.unboundedPreceding, 0)
    found = {c: F.last(F.col("known_").getField(c), ignorenulls=True).over(of_life) for c in kept}
    filled = lives.select("*", _struct(found).alias("found_")).where("new_ = 1")
    values = [
        F.when(_has(absent, kept[c]), F.col("found_").getField(c).getField("v")).otherwise(F.col("value").getField(c))
        if c in kept
        else F.col("value").getField(c)
        for c in struct.names
    ]
    made = F.struct(*[value.alias(name) for name, value in zip(struct.names, values, strict=True)])
    whole = filled.withColumns(
        {
            "value": F.when(F.isnotnull("value"), made),
            "reason": F.coalesce(F.col("reason"), F.when(good & ~gone, F.coalesce(*_problems(source, kept)))),
        }
    )
    return whole.drop("new_", "gone_", "known_", "life_", "found_")


def _find_kept(source: Source) -> Mapping[str, str]:
    """Value column to the plain column of the payload."""
    assert isinstance(source.topic.value, Debezium)
    own = {quote(column): column for column in source.topic.value.schema}
    return {name: own[e.sql] for name, e in source.value.items() if e.sql in own}


def _last(earlier: DataFrame, keys: DataFrame, kept: Mapping[str, str], struct: T.StructType) -> DataFrame:
    there = earlier.schema["value"].dataType
    assert isinstance(there, T.StructType)
    newest = (
        earlier.join(F.broadcast(keys), "key", "left_semi")
        .groupBy("key")
        .agg(F.max_by(F.struct("value"), F.struct("epoch", "offset")).getField("value").alias("old"))
    )
    types = {column: type_text(struct[column].dataType) for column in kept}
    known = {
        column: F.when(F.isnotnull("old"), F.struct(F.col("old").getField(column).cast(of).alias("v")))
        if column in there.names
        else F.lit(None).cast(f"STRUCT<v: {of}>")
        for column, of in types.items()
    }
    return newest.select("key", F.lit(0).alias("new_"), F.lit(False).alias("gone_"), _struct(known).alias("known_"))


def _problems(source: Source, kept: Mapping[str, str]) -> Iterator[Column]:
    absent = F.col(ABSENT)
    yield F.lit(None).cast("string")
    assert isinstance(source.topic.value, Debezium)
    for column in source.topic.value.schema:
        for what, sql in _find_required(source, kept):
            if re.search(rf"(?<!\w){re.escape(column)}(?!\w)", sql):
                says = f"'{column}' is not in the record, because it is a large value that was not changed"
                yield F.when(_has(absent, column), F.lit(f"{says}, and {what} asks for it; {_CURE}"))
                asks = f"'{column}' is null, {_NO_MARKER}, and {what} asks for it; {_CURE}"
                yield F.when(_has(absent, DOUBTFUL + column), F.lit(asks))
    for name, column in kept.items():
        before = F.col("found_").getField(name).getField("v")
        asks = f"value column '{name}': '{column}' is null, {_NO_MARKER}, and the row of its key has one; {_CURE}"
        yield F.when(_has(absent, DOUBTFUL + column) & F.isnotnull(before), F.lit(asks))
        says = f"value column '{name}': '{column}' is a large value that was not changed, and no row of its key has it"
        yield F.when(_has(absent, column) & F.isnull(F.col("found_").getField(name)), F.lit(f"{says} here; {_CURE}"))


def _find_required(source: Source, kept: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    zone = source.time_zone.sql if isinstance(source.time_zone, Expr) else ""
    yield from (("the key", e.sql) for e in source.key.values())
    yield from (("the value", e.sql) for name, e in source.value.items() if name not in kept)
    yield from (("where", source.where or ""), ("the event time", source.timestamp), ("the time zone", zone))
    yield "tombstone", source.tombstone or ""


def _has(absent: Column, column: str) -> Column:
    return F.coalesce(F.array_contains(absent, column), F.lit(False))


def _struct(columns: Mapping[str, Column]) -> Column:
    parts = [column.alias(name) for name, column in columns.items()]
    return F.struct(*parts, F.lit(0).alias("none_"))
