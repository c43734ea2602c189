"""``rivermeet replay``: joins on hand-written records, thousands of cases in a few Spark jobs.

Cases that differ only in their records and numbers are one join with a partition for each. By default an operator
sees all records of a case at once; through ``epochs`` they go the way of every node: changelogs, plans, commits.

A case is a partition; both of its inputs share one run of offsets, so that an offset is a place in the case's list,
and the order of processing is the order of offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rivermeet.assets.replay.cases import KEY, MANY_KEY, Case, Group, declare, group_of, sort_out
from rivermeet.infra.engine.fit import INTERPRETED, fit_shuffles
from rivermeet.infra.engine.session import close, new_session
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.small_frames import frame_of
from rivermeet.joins.operator import EpochInputs, Numbers, compute
from rivermeet.joins.order import LEFT, RIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORKERS = 2
Rows = list[dict[str, Any]]
Way = Callable[["SparkSession", Sequence[Case]], Mapping[int, Rows]]
"""How the cases of one group are answered: case to rows."""


def replay(spark: SparkSession, given: Sequence[Any], semantics: str, way: Way) -> list[dict[str, Any]]:
    """A result for each case, in their order: its ``output``, or ``error``."""
    results, runnable = sort_out(given, semantics)
    groups: dict[Group, list[tuple[int, Case]]] = {}
    for at, case in runnable:
        groups.setdefault(group_of(case), []).append((at, case))
    own = local()
    opened: list[SparkSession] = []

    def open_session() -> None:
        own.session = new_session(spark)
        opened.append(own.session)
        for name, value in INTERPRETED.items():
            own.session.conf.set(name, value)

    def answer(members: Sequence[tuple[int, Case]]) -> None:
        found = way(own.session, [case for _, case in members])
        for number, (at, _) in enumerate(members):
            results[at]["output"] = found.get(number, [])

    # Much of a small job is planning, on one core: two groups at a time keep two busy.
    with ThreadPoolExecutor(WORKERS, initializer=open_session) as pool:
        list(pool.map(answer, groups.values()))
    for session in opened:
        close(session)
    return results


def at_once(spark: SparkSession, cases: Sequence[Case]) -> Mapping[int, Rows]:
    """All records of every case in one step of the operator, without any table."""
    size = sum(len(case.input) for case in cases)
    fit_shuffles(spark, size, len(cases))
    shared = SharedFrames("replay", size)
    try:
        numbers = numbers_of(spark, cases)
        operation = declare(widest(cases), len(cases)).operation
        assert operation is not None
        frames = compute(operation, _inputs(spark, cases, numbers, shared.keep))
        return answers(frames.rows, cases[0].join == "one-to-many", "sequence")
    finally:
        shared.release()


def _inputs(spark: SparkSession, cases: Sequence[Case], numbers: Any, keep: Any) -> EpochInputs:
    many, ordered = cases[0].join == "one-to-many", in_listed_order(numbers)
    left = keep(records(spark, places(cases), "left", many))
    # A self-join meets its own records: they are both of its inputs.
    right = left if cases[0].self else keep(records(spark, places(cases), "right", many))
    raw: dict[str, DataFrame] = {"left": left, "right": right}
    return EpochInputs(
        records={"left": keep(ordered(left, LEFT)), "right": keep(ordered(right, RIGHT))},
        open_records=lambda side, slack: raw[side].where("false"),
        earlier=lambda side: raw[side].where("false"),
        table=lambda side, moment: raw[side].where("false"),
        emitted=lambda slack: None,
        keep=keep,
        keep_if_few=keep,
        keep_if_many=keep,
        numbers=numbers,
    )


def places(cases: Sequence[Case]) -> Iterator[Place]:
    """Every record of every case: its case's number, its place there, and itself."""
    for number, case in enumerate(cases):
        for offset, record in enumerate(case.input):
            yield number, offset, record


def widest(cases: Sequence[Case]) -> Case:
    """A case of the group with the longest of all numbers, so that no case's state is cut off."""
    window = cases[0].window
    if window is not None:
        bounds = {n: max(getattr(c.window, n) for c in cases) for n in ("before_ms", "after_ms", "grace_ms")}
        window = window.model_copy(update=bounds)
    names = ("left_versioned_ms", "right_versioned_ms")
    histories = {n: max((v for c in cases if (v := getattr(c, n)) is not None), default=None) for n in names}
    # The longest grace is within the longest history, as each is within its own case's.
    graces = [c.table_grace_ms for c in cases if c.table_grace_ms is not None]
    return cases[0].model_copy(update={"window": window, **histories, "table_grace_ms": max(graces, default=None)})


Place = tuple[int, int, Any]
"""Partition, offset, input record."""


def records(spark: SparkSession, places: Iterable[Place], side: str, many: bool) -> DataFrame:
    """One input's records of many cases: key, value, timestamp, partition, offset."""
    made = record_table(places, side, many, epoch=0)
    return frame_of(spark, [tuple(row.values()) for row in made.to_pylist()], made.schema).drop("epoch")


def record_table(places: Iterable[Place], side: str, many: bool, epoch: int) -> pa.Table:
    """The same records as an epoch of a changelog."""
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
