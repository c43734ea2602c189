"""An epoch's rows: numbered as the changelog goes on, and counted in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from infra.epochs.offsets import looked_up
from infra.epochs.plan import EpochPlan, Offsets


def with_offsets(rows: DataFrame, plan: EpochPlan) -> DataFrame:
    """Rows with ``offset`` (dense, going on where the changelog ends) and ``epoch`` in place of ``sequence``."""
    order = Window.partitionBy("partition").orderBy("sequence")
    last = F.coalesce(F.expr(looked_up(plan.ends)), F.lit(-1))
    offset = (last + F.row_number().over(order)).cast("bigint")
    front = ["key", "value", "timestamp", "partition"]
    rest = [c for c in rows.columns if c not in (*front, "sequence")]
    numbered = rows.withColumn("offset", offset)
    return numbered.select(*front, "offset", F.lit(plan.epoch).cast("bigint").alias("epoch"), *rest)


@dataclass(frozen=True)
class Totals:
    """Counts of an epoch, and per partition its last offset, highest timestamp (ms) and stream time (ms).

    ``one_sided`` counts rows without a partner; None where the rows do not tell their records' offsets.
    """

    rows: int
    tombstones: int
    one_sided: int | None
    ends: Offsets
    times: Offsets
    stream_time: Offsets
    sides: Mapping[str, int]

    def without_rows(self) -> Totals:
        """Those of an epoch whose rows are not committed: stream time moves on, and side tables count."""
        alone = None if self.one_sided is None else 0
        return replace(self, rows=0, tombstones=0, one_sided=alone, ends={}, times={})


def totals(rows: DataFrame, sides: Mapping[str, DataFrame], timed: Sequence[DataFrame]) -> Totals:
    """Counts of an epoch, in one pass that also fills the cache of its rows."""
    paired = {"left_offset", "right_offset"} <= set(rows.columns)
    alone = "count_if(left_offset IS NULL OR right_offset IS NULL)" if paired else "0"

    def summed(
        frame: DataFrame, what: str, partition: str, end: str, time: str, nulls: str, alone: str = "0"
    ) -> DataFrame:
        return frame.groupBy(F.expr(partition).cast("int").alias("partition")).agg(
            F.lit(what).alias("what"),
            F.count("*").alias("rows"),
            F.expr(nulls).cast("bigint").alias("nulls"),
            F.expr(alone).cast("bigint").alias("alone"),
            F.expr(end).cast("bigint").alias("end"),
            F.expr(time).cast("bigint").alias("time"),
        )

    parts = [summed(rows, "rows", "partition", "max(offset)", "max(timestamp)", "count_if(value IS NULL)", alone)]
    parts += [summed(frame, f"side:{name}", "0", "0", "0", "0") for name, frame in sides.items()]
    parts += [summed(frame, "time", "partition", "0", "max(timestamp)", "0") for frame in timed]
    lines = reduce(DataFrame.unionByName, parts).collect()
    own = [line for line in lines if line.what == "rows"]
    stream_time: Offsets = {}
    for line in lines:
        if line.what == "time":
            stream_time = later(stream_time, {line.partition: line.time})
    return Totals(
        rows=sum(line.rows for line in own),
        tombstones=sum(line.nulls for line in own),
        one_sided=sum(line.alone for line in own) if paired else None,
        ends={line.partition: line.end for line in own},
        times={line.partition: line.time for line in own},
        stream_time=stream_time,
        sides={name: sum(line.rows for line in lines if line.what == f"side:{name}") for name in sides},
    )


def later(one: Offsets, other: Offsets) -> Offsets:
    """The higher of two numbers, partition by partition."""
    return {p: max(t for t in (one.get(p), other.get(p)) if t is not None) for p in {*one, *other}}
