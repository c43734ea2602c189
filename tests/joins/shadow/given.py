"""Two topics in words, the application's rows in words, and the differences that a comparison finds between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.rows import with_offsets
from rivermeet.joins.operator import EpochInputs, compute
from rivermeet.joins.order import LEFT, RIGHT, in_processing_order
from rivermeet.joins.shadow.answers import Answers, Bounds, shape_differences
from rivermeet.joins.shadow.compare import compare
from rivermeet.pipelines import Files, Node, Pipeline

Record = tuple[str, str | None, int]
"""Key, value (None: a tombstone) and timestamp; offsets are counted."""
Found = dict[tuple[str, str | None], tuple[str, str]]
"""Key and value of the differing row to kind and cause."""
DDL = "key STRUCT<k: STRING>, value STRUCT<v: STRING>, timestamp BIGINT, partition INT, offset BIGINT"


def two(kind: str, other: str, **options: Any) -> tuple[Any, Any]:
    """Two sources of a pipeline: what is computed of them is never read from files here."""
    pipeline = Pipeline("shop")
    files = Files("n/*.csv", "csv", {"k": "STRING", "v": "STRING", "ts": "BIGINT"})
    given: Any = {"key": ["k"], "value": ["v"], "timestamp": "ts"}
    return getattr(pipeline, kind)("l", files, **given), getattr(pipeline, other)("r", files, **given, **options)


def frame(spark: SparkSession, records: Sequence[Record]) -> DataFrame:
    rows = [((key,), None if value is None else (value,), at, 0, n) for n, (key, value, at) in enumerate(records)]
    return spark.createDataFrame(rows, DDL)


def answers(
    spark: SparkSession,
    node: Node,
    left: Sequence[Record],
    right: Sequence[Record],
    theirs: Sequence[Any],
    columns: str = "v STRING",
    read: Bounds | None = None,
) -> Answers:
    """Ours as the operator computes them; theirs as they stand here: key, value tuple, timestamp."""
    operation = node.operation
    assert operation is not None
    lefts = kept(in_processing_order(frame(spark, left), LEFT))
    rights = kept(in_processing_order(frame(spark, right), RIGHT))
    nothing: Callable[..., DataFrame] = lambda *_: frame(spark, [])  # noqa: E731
    inputs = EpochInputs(
        records={"left": lefts, "right": rights},
        open_records=nothing,
        earlier=nothing,
        table=nothing,
        emitted=lambda slack: None,
        keep=kept,
    )
    plan = EpochPlan(pipeline="shop", node=node.name, incarnation=1, epoch=1)
    ours = kept(with_offsets(compute(operation, inputs).rows, plan))
    rows = [((key,), value, at, 0, n) for n, (key, value, at) in enumerate(theirs)]
    kind = f"key STRUCT<k: STRING>, value STRUCT<{columns}>, timestamp BIGINT, partition INT, offset BIGINT"
    return Answers(ours, spark.createDataFrame(rows, kind), lefts, rights, read or {}, keep=kept)


def kept(rows: DataFrame) -> DataFrame:
    """As an audit keeps them: the plans of what is made of them would grow beyond all measure."""
    return SharedFrames(f"given_{uuid4().hex}", records=0).keep(rows)


def differences(node: Node, given: Answers) -> Found:
    """What is found, by key and value of the row that differs: theirs where it is extra, else ours."""
    rows = shape_differences(compare(node, given).differences).collect()
    found: Found = {}
    for row in rows:
        side = row["theirs"] if row["kind"] == "extra" and row["theirs"] else row["ours"] or row["theirs"]
        found[row["key"].split('"')[3], side["value"]] = row["kind"], row["cause"]
    assert len(found) == len(rows), rows
    return found


def totals(node: Node, given: Answers) -> tuple[int, int, int]:
    """Keys or rows, equal ones, and those that came otherwise."""
    ((keys, equal, otherwise),) = compare(node, given).compared.collect()
    return keys, equal, otherwise
