"""table ⋈ table on the key: each change of either side tells what it does to the key's row.

A key has a row where both sides have one (inner), the left one (left), or either (outer). Left join, profile 3.1:

    right k a@1        nothing: there is no left row
    left  k A@2        A-a @2
    right k null@3     A-null @3
    left  k null@1     tombstone @1, the change's own timestamp
    left  k null@5     nothing: there was no row

A row's timestamp is the later of the change's and the other side's, where that has a row.

| the key has no row after the change | emits |
|---|---|
| 3.1 | if it had one before |
| kafka-4, 0.10.2 | if the other side has a row, or (not inner) this side had one; but not by the right of a left join |
| 0.10.0 | always; and every timestamp is the change's own |

With a cache, profile 3.1 tells the net change per key and commit (``joins/tables/cache.py``). The profiles of Kafka's
versions cache the inputs: at a commit each side's last change of every key is put to the other side as it is then,
left before right; then the ``materialized`` result in the same way. The commit's last record is the trigger.
A versioned side has no cache, and only its latest versions count (``joins/tables/versioned.py``).

Source: KIP-77, KIP-914, wiki page "Kafka Streams Join Semantics" (KTable-KTable join). Held by
``tests/joins/tables/test_recorded_tables.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from joins.operator import EpochFrames, EpochInputs, Side, StateRead
from joins.order import LEFT, RIGHT
from joins.tables.cache import net_changes, told_before
from joins.tables.versioned import forwarded
from joins.tables.versions import read_state
from joins.values import joined_value, key_type, with_record
from pipelines import TableTableJoin

SIDES: tuple[tuple[int, Side], ...] = ((LEFT, "left"), (RIGHT, "right"))


def state(join: TableTableJoin) -> StateRead:
    """Both tables before the epoch; of a versioned one its whole history."""
    return read_state(join)


def compute(join: TableTableJoin, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    rows = _emitted(join, _with_states(join, inputs))
    if join.cache is not None:
        rows = _flushed(join, inputs, rows)
    value = F.when(F.col("live"), joined_value(join.select))
    return EpochFrames(rows.withColumn("value", value).drop("left", "right", "live", "was", "phase", "commit"))


def _cached(join: TableTableJoin, side: int) -> bool:
    """Whether a side's changes wait for the commit."""
    history = join.left.history if side == LEFT else join.right.history
    return join.cache is not None and join.semantics != "3.1" and history is None


def _with_states(join: TableTableJoin, inputs: EpochInputs) -> DataFrame:
    """Changes with what each side had under the key: before (``left_was``, ``right_was``) and after (``left_now``, …).

    These are STRUCT<left, timestamp>, and of the right side alike; NULL or without a record where it had none.
    """
    left_key, right_key, shift = key_type(inputs.left), key_type(inputs.right), join.window_map or 0
    # All is done under the left key; each record keeps its own for the expressions.
    as_left, as_right = _key_as(left_key, right_key, -shift), _key_as(right_key, left_key, shift)
    changed = inputs.left.select("key").unionByName(inputs.right.select(as_left.alias("key")))
    touched = inputs.keep(changed.where("key IS NOT NULL").distinct())
    parts: list[DataFrame] = []
    for at, side in SIDES:
        history = join.left.history if side == "left" else join.right.history
        keys = touched if at == LEFT else touched.select(as_right.alias("key"))
        for records in forwarded(inputs, side, history, keys):
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
    states: dict[str, Column] = {}
    for at, side in SIDES:
        mine, seen = F.col("side") == at, _seen(F.col(f"{side}_put"))
        # Behind a cache it is one change for each commit: from what there was at the one before.
        own = _last_put(side, at, -1) if _cached(join, at) else seen
        asked = _last_put(side, at, 0) if _cached(join, 1 - at) else seen
        states[f"{side}_was"] = F.when(mine, own).otherwise(asked)
        states[f"{side}_now"] = F.when(mine, F.col(f"{side}_put")).otherwise(F.col(f"{side}_was"))
        if _cached(join, at):
            states[f"{side}_last"] = F.max(F.when(mine, F.col("order"))).over(_commits(0, 0))
    for name, column in states.items():
        both = both.withColumn(name, column)
    changes = both.where(F.col("order").isNotNull())
    for at, side in SIDES:
        if _cached(join, at):
            any_there = F.col(f"{side}_was.{side}").isNotNull() | F.col(f"{side}_now.{side}").isNotNull()
            waits_here = (F.col("order") == F.col(f"{side}_last")) & any_there
            changes = changes.where((F.col("side") != at) | waits_here)
    return changes


def _key_as(kind: StructType, other: StructType, shift: int) -> Column:
    """``key``, of type ``other``, as the other side has it: of type ``kind``, in the window ``shift`` ms later."""
    fields: list[Column] = []
    for mine, theirs in zip(kind.fields, other.fieldNames(), strict=True):
        column = F.col("key").getField(theirs)
        if shift and theirs in ("window_start", "window_end"):
            column = column + F.lit(shift)
        fields.append(column.cast(mine.dataType.simpleString()).alias(mine.name))
    return F.when(F.col("key").isNotNull(), F.struct(*fields))


def _seen(put: Column) -> Column:
    """What was put last before a change."""
    order = Window.partitionBy("key").orderBy(F.col("order").asc_nulls_first(), "side")
    return F.last(put, ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, -1))


def _commits(start: int, end: int):
    return Window.partitionBy("key").orderBy("commit").rangeBetween(start, end)


def _last_put(side: Side, at: int, end: int) -> Column:
    """What was put last up to the end of the change's commit (``end`` is 0) or of the one before (-1)."""
    arrival = F.when(F.col("side") == at, F.struct(F.col("order").isNotNull().alias("now"), F.col("order")))
    return F.max_by(F.col(f"{side}_put"), arrival).over(_commits(Window.unboundedPreceding, end))


def _emitted(join: TableTableJoin, changes: DataFrame) -> DataFrame:
    """Rows that changes cause: ``live`` is false for a tombstone, ``was`` tells whether the key had a row before."""

    def present(side: str, moment: str) -> Column:
        return F.col(f"{side}_{moment}.{side}").isNotNull()

    def exists(moment: str) -> Column:
        left, right = present("left", moment), present("right", moment)
        return {"inner": left & right, "left": left, "outer": left | right}[join.how]

    of_left = F.col("side") == LEFT
    other = F.when(of_left, present("right", "now")).otherwise(present("left", "now"))
    own = F.when(of_left, present("left", "was")).otherwise(present("right", "was"))
    if join.semantics == "3.1":
        emits = F.col("was")
    elif join.semantics == "0.10.0":
        emits = F.lit(True)
    else:
        emits = other | own if join.how != "inner" else other
        emits = emits & of_left if join.how == "left" else emits
    moment = F.col("timestamp")
    if join.semantics != "0.10.0":
        asked = F.when(of_left, F.col("right_now.timestamp")).otherwise(F.col("left_now.timestamp"))
        moment = F.greatest("timestamp", F.when(other, asked))
    phase = F.when(of_left, 1 if _cached(join, LEFT) else 0).otherwise(2 if _cached(join, RIGHT) else 0)
    trigger = F.struct(
        F.when(of_left, F.lit("left")).otherwise(F.lit("right")).alias("side"), F.col("partition"), F.col("offset")
    )
    judged = changes.withColumns({"live": exists("now"), "was": exists("was"), "phase": phase})
    return judged.where(F.col("live") | emits).select(
        "key",
        moment.alias("timestamp"),
        "partition",
        trigger.alias("trigger"),
        # Of one commit: what does not wait for it, then the left changes, then the right ones.
        F.struct("commit", "phase", "order").alias("sequence"),
        F.when(F.col("live"), F.col("left_now.left")).alias("left"),
        F.when(F.col("live"), F.col("right_now.right")).alias("right"),
        "live",
        "was",
        "phase",
        "commit",
    )


def _flushed(join: TableTableJoin, inputs: EpochInputs, rows: DataFrame) -> DataFrame:
    """Rows as the commits tell them."""
    if join.semantics == "3.1":
        rows = inputs.keep(rows)
        # The key's first row says whether there was one before the epoch.
        first = rows.groupBy("key").agg(F.min_by("was", "sequence").alias("was")).where("was")
        return net_changes(rows, first.select("key"))
    if join.materialized:
        rows = inputs.keep(rows)
        rows = net_changes(rows, told_before(inputs.emitted(None), rows))
    records = [
        inputs.records[side].select(
            "commit", "order", F.struct(F.lit(side).alias("side"), "partition", "offset").alias("r")
        )
        for _, side in SIDES
    ]
    last = F.max_by("r", "order").alias("last")
    ends = records[0].unionByName(records[1]).groupBy("r.partition", "commit").agg(last)
    waited = F.lit(True) if join.materialized else F.col("phase") > 0
    trigger = F.when(waited, F.col("last")).otherwise(F.col("trigger"))
    return rows.join(ends, ["partition", "commit"], "left").withColumn("trigger", trigger).drop("last")
