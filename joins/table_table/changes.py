"""Changes of either table with what both sides had under the key, before each and after it.

    left  k A@2     left_was NULL, left_now (A, 2)      right_was NULL, right_now NULL
    right k a@3     left_was (A, 2), left_now (A, 2)    right_was NULL, right_now (a, 3)
    left  k null@4  left_was (A, 2), left_now (NULL, 4) right_was (a, 3), right_now (a, 3)

A side with an input cache has one change per commit: its last one, from what there was at the commit before; the other
side sees it as of the commit's end. A versioned side has no cache, and only its latest versions count
(``joins/tables/versioned.py``). Held by ``tests/joins/table_table/test_recorded.py``.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rivermeet.joins.operator import EpochInputs, Side
from rivermeet.joins.order import LEFT, RIGHT, before_here, last_known
from rivermeet.joins.tables.versioned import forward_changes
from rivermeet.joins.values import key_type, with_record
from rivermeet.pipelines import TableTableJoin
from rivermeet.records.type_text import type_text

SIDES: tuple[tuple[int, Side], ...] = ((LEFT, "left"), (RIGHT, "right"))


def find_changes(join: TableTableJoin, inputs: EpochInputs, cached: Collection[int] = ()) -> DataFrame:
    """The epoch's changes, all under the left key; each record keeps its own for the expressions.

    Parameters
    ----------
    cached
        Sides (`LEFT`, `RIGHT`) whose changes wait for their commit.

    Returns
    -------
    DataFrame
        ``side`` INT; ``key``; ``timestamp`` (ms), ``partition``, ``offset``, ``order``, ``commit`` of the change; and
        ``left_was``, ``left_now`` STRUCT<left, timestamp>, ``right_was``, ``right_now`` STRUCT<right, timestamp>: NULL
        where the side never had a record, without a record where it was deleted.
    """
    left_key, right_key, shift = key_type(inputs.left), key_type(inputs.right), join.window_map or 0
    as_left, as_right = _key_as(left_key, right_key, -shift), _key_as(right_key, left_key, shift)
    changed = inputs.left.select("key").unionByName(inputs.right.select(as_left.alias("key")))
    touched = inputs.keep_if_many(changed.where("key IS NOT NULL").distinct())
    parts: list[DataFrame] = []
    for at, side in SIDES:
        history = join.left.history if side == "left" else join.right.history
        keys = touched if at == LEFT else touched.select(as_right.alias("key"))
        for records in forward_changes(inputs, side, history, keys):
            put = F.struct(side, "timestamp").alias(f"{side}_put")
            parts.append(
                with_record(records, side).select(
                    F.lit(at).alias("side"),
                    (F.col("key") if at == LEFT else as_left).alias("key"),
                    "timestamp",
                    "partition",
                    "offset",
                    "order",
                    "commit",
                    put,
                )
            )
    both = parts[0].unionByName(parts[1])
    for part in parts[2:]:
        both = both.unionByName(part, allowMissingColumns=True)
    for name, column in _states(cached).items():
        both = both.select("*", column.alias(name))
    found = both.where(F.col("order").isNotNull())
    for at, side in SIDES:
        if at in cached:
            any_there = F.col(f"{side}_was.{side}").isNotNull() | F.col(f"{side}_now.{side}").isNotNull()
            last_of_commit = (F.col("order") == F.col(f"{side}_last")) & any_there
            found = found.where((F.col("side") != at) | last_of_commit)
    return found


def input_caches(join: TableTableJoin) -> tuple[int, ...]:
    """The sides that Kafka's versions cache: those that are not versioned, where there is a cache at all."""
    history = {LEFT: join.left.history, RIGHT: join.right.history}
    return tuple(at for at, kept in history.items() if join.cache is not None and kept is None)


def _states(cached: Collection[int]) -> dict[str, Column]:
    """Columns of both sides' states, in the order in which they depend on each other."""
    states: dict[str, Column] = {}
    before = before_here(Window.partitionBy("key").orderBy(F.col("order").asc_nulls_first(), "side"))
    for at, side in SIDES:
        mine, seen = F.col("side") == at, last_known(f"{side}_put", before)
        own = _last_put(side, at, -1) if at in cached else seen
        other = _last_put(side, at, 0) if 1 - at in cached else seen
        states[f"{side}_was"] = F.when(mine, own).otherwise(other)
        states[f"{side}_now"] = F.when(mine, F.col(f"{side}_put")).otherwise(F.col(f"{side}_was"))
        if at in cached:
            states[f"{side}_last"] = F.max(F.when(mine, F.col("order"))).over(_commits(0, 0))
    return states


def _key_as(kind: StructType, other: StructType, shift: int) -> Column:
    """``key``, of type ``other``, as the other side has it: of type ``kind``, in the window ``shift`` ms later."""
    fields: list[Column] = []
    for mine, theirs in zip(kind.fields, other.fieldNames(), strict=True):
        column = F.col("key").getField(theirs)
        if shift and theirs in ("window_start", "window_end"):
            column = column + F.lit(shift)
        fields.append(column.cast(type_text(mine.dataType)).alias(mine.name))
    return F.when(F.col("key").isNotNull(), F.struct(*fields))


def _commits(start: int, end: int) -> WindowSpec:
    return Window.partitionBy("key").orderBy("commit").rangeBetween(start, end)


def _last_put(side: Side, at: int, end: int) -> Column:
    """What was put last up to the end of the change's commit (``end`` is 0) or of the one before (-1)."""
    arrival = F.when(F.col("side") == at, F.struct(F.col("order").isNotNull().alias("now"), F.col("order")))
    return F.max_by(F.col(f"{side}_put"), arrival).over(_commits(Window.unboundedPreceding, end))
