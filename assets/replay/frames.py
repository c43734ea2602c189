"""Records of cases as the operators take them, and their answers as the cases want them.

A case is a partition; both of its inputs share one run of offsets, so that an offset is a place in the case's list,
and the order of processing is the order of offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rivermeet.assets.replay.cases import Case
from rivermeet.assets.replay.declared import KEY, MANY_KEY

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from rivermeet.joins.operator import Numbers

Place = tuple[int, int, Any]
"""Partition, offset, input record."""


def records(spark: SparkSession, places: Iterable[Place], side: str, many: bool) -> DataFrame:
    """One input's records of many cases: key, value, timestamp, partition, offset."""
    from rivermeet.infra.small_frames import frame_of

    made = record_table(places, side, many, epoch=0)
    return frame_of(spark, [tuple(row.values()) for row in made.to_pylist()], made.schema).drop("epoch")


def record_table(places: Iterable[Place], side: str, many: bool, epoch: int) -> pa.Table:
    """The same records as an epoch of a changelog."""
    import pyarrow as pa

    names = [*(MANY_KEY if many and side == "right" else KEY)]
    schema = pa.schema(
        {
            "key": pa.struct({names[0]: pa.int32(), names[1]: pa.string()}),
            "value": pa.struct({"case": pa.int32(), "v": pa.string()}),
            "timestamp": pa.int64(),
            "partition": pa.int32(),
            "offset": pa.int64(),
            "epoch": pa.int64(),
        }
    )
    lines = [
        {
            "key": None if record.key is None else dict(zip(names, (case, record.key), strict=True)),
            "value": None if record.value is None else {"case": case, "v": record.value},
            "timestamp": record.ts,
            "partition": case,
            "offset": offset,
            "epoch": epoch,
        }
        for case, offset, record in places
        if record.side == side
    ]
    return pa.Table.from_pylist(lines, schema)


def numbers_of(spark: SparkSession, cases: Sequence[Case]) -> Numbers:
    """Adds each case's own numbers to its partition's records."""
    from pyspark.sql import functions as F

    names = list(cases[0].numbers)
    rows = [(case, *c.numbers.values()) for case, c in enumerate(cases)]
    table = spark.createDataFrame(rows, "partition INT, " + ", ".join(f"{n} BIGINT" for n in names)).persist()

    def add(frame: DataFrame, **declared: int | None) -> DataFrame:
        wanted = F.broadcast(table.select(F.col("partition").alias("__case"), *declared))
        return frame.join(wanted, frame["partition"] == wanted["__case"], "left").drop("__case")

    return add


def in_listed_order(numbers: Numbers):
    """Gives records their ``order``, which is the case's, and the ``commit`` that they belong to."""
    from pyspark.sql import functions as F

    def order(frame: DataFrame, side: int) -> DataFrame:
        place = F.struct(F.col("offset").alias("position"), F.lit(side).alias("side"))
        counted = numbers(frame, commit_every=1)
        return (
            counted.withColumn("order", place)
            .withColumn("commit", F.expr("offset div commit_every"))
            .drop("commit_every")
        )

    return order


def answers(rows: DataFrame, many: bool, *order: str) -> dict[int, list[dict[str, Any]]]:
    """Case to its rows in order: key, value, ts, and ``in``, the place of the record that caused each."""
    from pyspark.sql import functions as F

    key = F.concat("key.k", "key.many_k") if many else F.col("key.k")
    listed = rows.orderBy("partition", *order).select(
        "partition",
        key.alias("key"),
        F.col("value.v").alias("value"),
        F.col("timestamp").alias("ts"),
        F.col("trigger.offset").alias("in"),
    )
    found: dict[int, list[dict[str, Any]]] = {}
    for case, *cells in listed.collect():
        found.setdefault(case, []).append(dict(zip(("key", "value", "ts", "in"), cells, strict=True)))
    return found
