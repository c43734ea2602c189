"""What the joins of two tables without co-partitioning share: a side's rows in time.

``order`` places a change; NULL is before the epoch. A row holds from its ``order`` on, up to ``until`` (NULL: still).

    before   k {f}                 order NULL, until 3
    change   k {g}   at order 3    order 3, until 7, replaced a row that was there and pointed to f
    change   k NULL  at order 7    order 7, until NULL, replaced one that pointed to g

A look-up at order 5 of key k finds {g} (``joins/tables/as_of.py``).

Source: wiki page "Kafka Streams Join Semantics" (joins of tables). Held by
``tests/joins/foreign_key/test_recorded.py`` and ``tests/joins/one_to_many/test_one_to_many.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rivermeet.joins.operator import EpochInputs, StateRead
from rivermeet.joins.values import null_of, with_mapped_key, with_record
from rivermeet.pipelines import ForeignKeyJoin, OneToManyJoin, TableTableJoin
from rivermeet.records.changelog import same_key


def read_state(join: TableTableJoin | ForeignKeyJoin | OneToManyJoin) -> StateRead:
    """Both tables as the epoch found them; of a versioned one its whole history, as it forwards only some of it."""
    return {
        "left": "before" if join.left.history is None else "earlier",
        "right": "before" if join.right.history is None else "earlier",
    }


def add_pointers(records: DataFrame, name: str, mapper: Mapping[str, str], other: StructType) -> DataFrame:
    """Records with STRUCT ``name`` (NULL: deleted) in place of ``value``, and ``fk``, the other table's key or NULL."""
    keyed = with_mapped_key(with_record(records, name), name, mapper, other, "fk").drop("value")
    return keyed.withColumn("fk", F.when(F.col(name).isNotNull(), F.col("fk")))


@dataclass(frozen=True)
class Timeline:
    """A side's rows in time.

    Attributes
    ----------
    versions
        Rows of the keys that the epoch changes, tombstones too, with ``until`` and what each replaced:
        ``was_there``, and ``old_fk`` where there are foreign keys.
    untouched
        Rows of all other keys, with ``until`` NULL.
    """

    versions: DataFrame
    untouched: DataFrame

    @property
    def standing(self) -> DataFrame:
        """Rows of all keys, with ``until``."""
        return self.untouched.unionByName(self.versions.drop("was_there", "old_fk"))


def build_timeline(
    before: DataFrame, changes: DataFrame, emitting: DataFrame, name: str, inputs: EpochInputs
) -> Timeline:
    """The `timeline` of those rows that the epoch affects, found in one pass: their own key changes, or their ``fk``.

    Parameters
    ----------
    changes, emitting
        Changes of the rows' own table, and of the other one.
    """
    changed = changes.select(F.col("key").alias("changed"), F.lit(True).alias("changes")).distinct()
    asked = emitting.select(F.col("key").alias("asked"), F.lit(True).alias("is_emitting")).distinct()
    marked = before.join(inputs.broadcast(changed), same_key("key", "changed"), "left")
    marked = marked.join(inputs.broadcast(asked), same_key("fk", "asked"), "left")
    reached = marked.where("changes OR is_emitting").drop("is_emitting", "changed", "asked")
    rows = reached.unionByName(changes.select("*", F.lit(True).alias("changes")))
    # A row that only the other table reaches is alone with its key: it has nothing before or after it.
    kept = inputs.keep(rows.select("*", *_in_time(name, points=True)))
    untouched = kept.where("changes IS NULL").drop("changes", "was_there", "old_fk")
    return Timeline(kept.where("changes").drop("changes"), untouched)


def timeline(before: DataFrame, changes: DataFrame, name: str, inputs: EpochInputs) -> Timeline:
    """The rows in time; ``name`` is the STRUCT that is NULL in a tombstone."""
    versions = inputs.keep(versions_of(before, changes, name, inputs))
    changed = inputs.broadcast(changes.select("key").distinct())
    untouched = before.join(changed, "key", "left_anti").select("*", null_of("order").alias("until"))
    return Timeline(versions, untouched)


def versions_of(
    before: DataFrame, changes: DataFrame, name: str, inputs: EpochInputs, points: bool = True
) -> DataFrame:
    """Rows of the changed keys, as in `Timeline`; ``points`` is whether they have an ``fk``."""
    changed = inputs.broadcast(changes.select("key").distinct())
    touched = before.join(changed, "key", "left_semi").unionByName(changes)
    return touched.select("*", *_in_time(name, points))


def _in_time(name: str, points: bool) -> list[Column]:
    """Where a row ends, and what it replaced."""
    per_key = Window.partitionBy("key").orderBy(F.col("order").asc_nulls_first())
    was_there = F.coalesce(F.lag(F.col(name).isNotNull()).over(per_key), F.lit(False))
    old = [F.lead("order").over(per_key).alias("until"), was_there.alias("was_there")]
    return [*old, F.lag("fk").over(per_key).alias("old_fk")] if points else old
