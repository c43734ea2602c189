"""An epoch's rows: numbered from the end of the changelog, and counted in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.delta.changelog_files import lookup_sql
from rivermeet.infra.delta.staged import Staged
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.pipelines import limits


def with_offsets(rows: DataFrame, plan: EpochPlan) -> DataFrame:
    """Rows with ``offset`` (dense, continuing from the end of the changelog) and ``epoch`` in place of ``sequence``."""
    order = Window.partitionBy("partition").orderBy("sequence")
    last = F.coalesce(F.expr(lookup_sql(plan.ends)), F.lit(-1))
    offset = (last + F.row_number().over(order)).cast("bigint")
    front = ("key", "value", "timestamp", "partition")
    # By a star, as the engine would be asked for the names of the others.
    rest = F.expr(f"* EXCEPT ({', '.join(front)}, sequence)")
    return rows.select(*front, offset.alias("offset"), F.lit(plan.epoch).cast("bigint").alias("epoch"), rest)


@dataclass(frozen=True)
class Totals:
    """Counts of an epoch, and per partition its last offset, highest timestamp (ms) and stream time (ms).

    ``one_sided`` counts rows without a partner; None if the rows do not contain the offsets of their records.
    """

    rows: int
    tombstones: int
    one_sided: int | None
    ends: Offsets
    times: Offsets
    stream_time: Offsets
    sides: Mapping[str, int]

    def without_rows(self) -> Totals:
        """Counts of an epoch whose rows are not committed: stream time advances, and side tables count."""
        alone = None if self.one_sided is None else 0
        return replace(self, rows=0, tombstones=0, one_sided=alone, ends={}, times={})


def totals(rows: DataFrame | Staged, sides: Mapping[str, DataFrame], timed: Sequence[DataFrame]) -> Totals:
    """Counts of an epoch: staged rows from their files, everything else in one pass that also fills the caches."""
    paired = {"left_offset", "right_offset"} <= set(rows.schema.names if isinstance(rows, Staged) else rows.columns)

    def count(frame: DataFrame, what: str, partition: str = "0", **given: str) -> DataFrame:
        counts = {"nulls": "0", "alone": "0", "end": "0", "time": "0"} | given
        return frame.groupBy(F.expr(partition).cast("int").alias("partition")).agg(
            F.lit(what).alias("what"),
            F.count("*").alias("rows"),
            *(F.expr(sql).cast("bigint").alias(name) for name, sql in counts.items()),
        )

    parts = [count(frame, f"side:{name}") for name, frame in sides.items()]
    parts += [count(frame, "time", "partition", time="max(timestamp)") for frame in timed]
    if not isinstance(rows, Staged):
        own = {"nulls": "count_if(value IS NULL)", "end": "max(offset)", "time": "max(timestamp)"}
        alone = {"alone": "count_if(left_offset IS NULL OR right_offset IS NULL)"} if paired else {}
        parts.append(count(rows, "rows", "partition", **own, **alone))
    lines = [Count(**line.asDict()) for line in reduce(DataFrame.unionByName, parts).collect()] if parts else []
    own = list(_count_staged(rows, paired)) if isinstance(rows, Staged) else _of(lines, "rows")
    return Totals(
        rows=sum(line.rows for line in own),
        tombstones=sum(line.nulls for line in own),
        one_sided=sum(line.alone for line in own) if paired else None,
        ends=highest((line.partition, line.end) for line in own),
        times=highest((line.partition, line.time) for line in own),
        stream_time=highest((line.partition, line.time) for line in _of(lines, "time")),
        sides={name: sum(line.rows for line in _of(lines, f"side:{name}")) for name in sides},
    )


@dataclass(frozen=True)
class Count:
    """Counts of one frame, or file, in one partition."""

    partition: int
    what: str
    rows: int
    nulls: int
    alone: int
    end: int
    time: int


def _of(lines: Iterable[Count], what: str) -> list[Count]:
    return [line for line in lines if line.what == what]


def _count_staged(staged: Staged, paired: bool) -> Iterator[Count]:
    """Counts of staged rows by file and partition, read a batch at a time."""
    for one in staged.files:
        with staged.open(one) as file:
            leaves = [file.schema.column(at).path for at in range(file.metadata.num_columns)]
            # Any part of the value shows whether the value is NULL.
            value = next(leaf for leaf in leaves if leaf.startswith("value."))
            columns = ["partition", "offset", "timestamp", value, *(("left_offset", "right_offset") if paired else ())]
            for batch in file.iter_batches(columns=columns, batch_size=limits.COUNTED_ROWS):
                yield from _sum_batch(batch, paired)


def _sum_batch(batch: pa.RecordBatch, paired: bool) -> Iterator[Count]:
    alone = pa.repeat(False, len(batch))
    if paired:
        alone = pc.call_function("or", [batch["left_offset"].is_null(), batch["right_offset"].is_null()])
    columns = {name: batch[name] for name in ("partition", "offset", "timestamp")}
    marks = {"nulls": batch["value"].is_null(), "alone": alone}
    table = pa.table(columns | {name: mark.cast(pa.int64()) for name, mark in marks.items()})
    wanted = [("offset", "count"), ("offset", "max"), ("timestamp", "max"), ("nulls", "sum"), ("alone", "sum")]
    for line in table.group_by("partition").aggregate(wanted).to_pylist():
        yield Count(
            partition=line["partition"],
            what="rows",
            rows=line["offset_count"],
            nulls=line["nulls_sum"],
            alone=line["alone_sum"],
            end=line["offset_max"],
            time=line["timestamp_max"],
        )


def highest(numbers: Iterable[tuple[int, int]]) -> Offsets:
    """The highest number of each partition."""
    found: Offsets = {}
    for partition, number in numbers:
        found[partition] = max(number, found.get(partition, number))
    return found
