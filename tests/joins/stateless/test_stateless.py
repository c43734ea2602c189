"""The operations around joins through the real epochs, against the same rules in plain Python, in any cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.sources.row_to_record import partition_of
from rivermeet.joins.reference.records import Record
from rivermeet.joins.stateless import select_key
from rivermeet.pipelines import Files, Node, Pipeline, Stream, Table, expr
from tests.joins.epochs.batch import FILES, TYPES, Batch, by_partition
from tests.joins.foreign_key.test_foreign_key import set_apart
from tests.reference.histories import random_histories, records_of
from tests.world import World

Make = Callable[..., World]
Rule = Callable[[Sequence[Record]], list[tuple[Any, ...]]]
CASES = 12
NUMBERED = "v LIKE '%1' OR (v LIKE '%2' AND k LIKE '%a')"
"""True of a value with 1, or with 2 under key a; null where the value is."""

NASTY = [
    ("left", "a", "L1", 5),  # passes
    ("left", "a", "L3", 4),  # no longer: a tombstone, out of order
    ("left", "a", "L3", 6),  # again: nothing
    ("left", "a", None, 6),  # the input's row goes; the result has none
    ("left", "b", "L2", 7),  # passes under a only
    ("left", "b", None, 8),
    ("left", "a", "L2", 9),
    ("left", "a", "L1", 9),
    ("left", "a", None, 10),  # a tombstone of a row that passed
    ("left", "a", None, 11),
    ("left", None, "L1", 12),
    ("left", None, None, 12),
]


def passes(r: Record) -> bool:
    return r.value is not None and (r.value.endswith("1") or (r.value.endswith("2") and (r.key or "").endswith("a")))


def filtered_stream(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    return [(r.key, r.value, r.timestamp, r.offset) for r in records if passes(r)]


def filtered_table(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    held: set[Any] = set()
    for r in records:
        if r.key is not None and passes(r):
            held.add(r.key)
            rows.append((r.key, r.value, r.timestamp, r.offset))
        elif r.key in held:
            held.discard(r.key)
            rows.append((r.key, None, r.timestamp, r.offset))
    return rows


def mapped(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    return [
        (r.key, None if r.value is None else f"{r.key or '-'}{r.value}{r.timestamp}", r.timestamp, r.offset)
        for r in records
    ]


def as_they_are(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    return [(r.key, r.value, r.timestamp, r.offset) for r in records]


def with_keys(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    return [row for row in as_they_are(records) if row[0] is not None]


MAPPED = {"w": "concat(coalesce(k, '-'), v, _timestamp)"}
UNARY: dict[str, tuple[str, Callable[[Any], Node], Rule]] = {
    "filter_stream": ("stream", lambda s: s.filter(NUMBERED, "out"), filtered_stream),
    "filter_table": ("table", lambda t: t.filter(NUMBERED, "out"), filtered_table),
    "map_stream": ("stream", lambda s: s.map_values(MAPPED, "out"), mapped),
    "map_table": ("table", lambda t: t.map_values(MAPPED, "out"), mapped),
    "to_table": ("stream", lambda s: s.to_table("out"), with_keys),
    "to_stream": ("table", lambda t: t.to_stream("out"), as_they_are),
}


def one_sided(seed: int) -> list[list[Record]]:
    """The nasty script, then random records of one input."""
    random = [[r for r in history if r.side == "left"] for history in random_histories(seed, CASES - 1, size=30)]
    lines = [[(r.side, r.key, r.value, r.timestamp) for r in history] for history in random]
    # A table's key lives in one partition.
    return [set_apart(case, records_of(each)) for case, each in enumerate([NASTY, *lines])]


def source(pipeline: Pipeline, name: str, kind: str = "stream", partitions: int = CASES) -> Any:
    verb = pipeline.stream if kind == "stream" else pipeline.table
    return verb(name, FILES, key=["k"], value=["v"], timestamp="ts", partitions=partitions)


@pytest.mark.cell(join="to-stream")
@pytest.mark.parametrize("epochs", [2])
@pytest.mark.parametrize("name", UNARY)
def test_one_input(world: Make, name: str, epochs: int) -> None:
    kind, made, rule = UNARY[name]
    a = source(Pipeline("around"), "a", kind)
    node = made(a)
    here = world(f"{name}-{epochs}", a=TYPES)
    batch = Batch(one_sided(17), epochs)
    for epoch in range(epochs):
        here.publish(a, batch.published(epoch, "left"))
        here.run(node)
    rows = by_partition(here.rows(node))
    for case, history in enumerate(batch.histories):
        found = [
            (r["key"] and r["key"]["k"], r["value"] and next(iter(r["value"].values())), r["timestamp"], offset_of(r))
            for r in rows.get(case, [])
        ]
        assert found == rule(history), (name, case)


def offset_of(row: dict[str, Any]) -> int:
    assert row["trigger"]["side"] == "left" and row["trigger"]["partition"] == row["partition"]
    return row["trigger"]["offset"]


@pytest.mark.cell(join="to-table")
def test_records_without_a_key_are_kept_beside_the_table(world: Make) -> None:
    a = source(Pipeline("around"), "a")
    node = a.to_table("out")
    here = world(a=TYPES)
    here.publish(a, [(("x",), ("1",), 3, 0), (None, ("2",), 4, 0), (None, None, 5, 1), (("x",), None, 6, 0)])
    result = here.run(node)
    assert result is not None
    assert result.sides == {"late": 2}
    shown = [
        (r["side"], r["key"], r["value"], r["timestamp"], r["partition"], r["offset"]) for r in here.rows(node, "late")
    ]
    assert sorted(shown, key=str) == [("left", None, '{"v":"2"}', 4, 0, 1), ("left", None, None, 5, 1, 0)]
    assert {(r["stream_time"], r["close"]) for r in here.rows(node, "late")} == {(None, None)}
    assert here.rows(node, "table") == []


def test_a_filter_of_a_streams_null_values_sees_the_key(world: Make) -> None:
    a = source(Pipeline("around"), "a")
    node = a.filter("v IS NULL AND k = 'x'", "out")
    here = world(a=TYPES)
    here.publish(a, [(("x",), None, 3, 0), (("y",), None, 4, 0), (None, None, 5, 0), (("x",), ("1",), 6, 0)])
    here.run(node)
    assert [(r["key"], r["value"], r["timestamp"]) for r in here.rows(node)] == [({"k": "x"}, None, 3)]


@pytest.mark.cell(join="map-values")
def test_columns_may_be_called_like_our_own(world: Make) -> None:
    pipeline = Pipeline("around")
    schema = {"partition": "STRING", "value": "STRING", "key": "STRING", "offset": "STRING", "ts": "BIGINT"}
    a = pipeline.table(
        "a", Files("none/*.csv", "csv", schema), key=["partition"], value=["value", "key", "offset"], timestamp="ts"
    )
    kept = a.filter("value = offset AND partition < key", "kept")
    other = kept.map_values({"order": "concat(key, partition)", "timestamp": "offset"}, "other")
    moved = other.to_stream("s").select_key({"side": expr("order", "STRING")}, "moved", 1)
    here = world(a="key STRUCT<partition: STRING>, value STRUCT<value: STRING, key: STRING, offset: STRING>")
    here.publish(a, [(("p",), ("o", "q", "o"), 3, 0), (("p",), ("o", "o", "o"), 4, 0), (("r",), ("o", "s", "q"), 4, 0)])
    for node in (kept, other, pipeline.node("s"), moved):
        here.run(node)
    assert [r["value"] for r in here.rows(kept)] == [{"value": "o", "key": "q", "offset": "o"}, None]
    assert [(r["key"], r["value"]) for r in here.rows(moved)] == [
        ({"side": "qp"}, {"order": "qp", "timestamp": "o"}),
        (None, None),
    ]


def test_a_versioned_table_tells_every_record_that_fails(world: Make) -> None:
    """An older record may pass after a newer one that did not: without the latter's tombstone it would be the row."""
    pipeline = Pipeline("around")
    a = pipeline.table("a", FILES, key=["k"], value=["v"], timestamp="ts", history="1h")
    node = a.filter("v = '1'", "out")
    here = world(a=TYPES)
    here.publish(a, [(("x",), ("2",), 9, 0), (("x",), ("1",), 4, 0)])
    here.run(node)
    assert [(r["value"], r["timestamp"]) for r in here.rows(node)] == [(None, 9), ({"v": "1"}, 4)]
    assert (node.history, a.map_values({"w": "v"}, "w").history) == (3_600_000, 3_600_000)


def test_failing_expressions_see_only_records_with_a_value(world: Make) -> None:
    a = source(Pipeline("around"), "a", "table")
    node = a.map_values({"n": "CAST(coalesce(v, 'none') AS INT)"}, "out")
    here = world(a=TYPES)
    here.publish(a, [(("x",), ("7",), 3, 0), (("x",), None, 4, 0)])
    here.run(node)
    assert [r["value"] for r in here.rows(node)] == [{"n": 7}, None]


def two_columns(pipeline: Pipeline, partitions: int = 2) -> Stream:
    files = Files("none/*.csv", "csv", {"k": "STRING", "n": "STRING", "m": "STRING", "ts": "BIGINT"})
    return pipeline.stream("a", files, key=["k"], value=["n", "m"], timestamp="ts", partitions=partitions)


@pytest.mark.cell(join="select-key")
def test_select_key_repartitions_in_processing_order(world: Make) -> None:
    a = two_columns(Pipeline("around"))
    node = a.select_key({"nr": expr("n", "INT"), "own": expr("k", "STRING")}, "out", 3)
    rows = [
        ((k,), (n, "m"), 10 * i, i % 2) for i, (k, n) in enumerate(zip("abcabcabcabc", "121212343434", strict=True))
    ]
    odd = [(("x",), None, 200, 0), (None, ("7", "m"), 200, 1), (("x",), (None, "m"), 201, 0), (None, None, 202, 1)]
    here = world(a="key STRUCT<k: STRING>, value STRUCT<n: STRING, m: STRING>")
    for records in (rows[:8], [*rows[8:], *odd]):
        here.publish(a, records)
        here.run(node)
    made = here.rows(node)
    for part in by_partition(made).values():
        assert [r["timestamp"] for r in part] == sorted(r["timestamp"] for r in part)
    expected = [({"nr": int(v[0]), "own": k[0]}, {"n": v[0], "m": v[1]}, t, p) for k, v, t, p in rows]
    expected += [(None, v and {"n": v[0], "m": v[1]}, t, p) for _, v, t, p in odd]
    found = [(r["key"], r["value"], r["timestamp"], r["trigger"]["partition"]) for r in made]
    assert sorted(found, key=lambda x: (x[2], x[3])) == expected
    assert {r["partition"] for r in made if r["key"] is None} == {0}
    assert {r["partition"] for r in made if r["key"]} == {0, 1, 2}
    places = {(r["key"]["nr"], r["key"]["own"], r["partition"]) for r in made if r["key"]}
    assert len(places) == len({place[:2] for place in places})


def test_a_null_value_has_the_key_of_its_key_columns(world: Make) -> None:
    a = two_columns(Pipeline("around"))
    node = a.select_key({"id": expr("upper(k)", "STRING")}, "out")
    here = world(a="key STRUCT<k: STRING>, value STRUCT<n: STRING, m: STRING>")
    here.publish(a, [(("x",), None, 1, 0)])
    here.run(node)
    assert [(r["key"], r["value"]) for r in here.rows(node)] == [({"id": "X"}, None)]


def test_select_key_puts_a_key_where_a_source_puts_it(spark: SparkSession) -> None:
    keys = spark.range(200).select(F.struct(F.col("id").cast("int").alias("a"), F.col("id").cast("string").alias("b")))
    keys = keys.toDF("key")
    for partitions in (1, 4, 7):
        ours, theirs = select_key.partition_of(F.col("key"), partitions), partition_of(F.col("key"), partitions)
        assert keys.where(~ours.eqNullSafe(theirs)).count() == 0
        assert keys.select(ours).distinct().count() == partitions


@pytest.mark.cell(join="merge")
@pytest.mark.parametrize("epochs", [2])
def test_merge_in_processing_order(world: Make, epochs: int) -> None:
    pipeline = Pipeline("around")
    left, right = source(pipeline, "a"), source(pipeline, "b")
    node = left.merge(right, "out")
    batch = Batch([records_of(NASTY), *random_histories(23, CASES - 1)], epochs)
    here = world(f"merge-{epochs}", a=TYPES, b=TYPES)
    for epoch in range(epochs):
        here.publish(left, batch.published(epoch, "left"))
        here.publish(right, batch.published(epoch, "right"))
        here.run(node)
    rows = by_partition(here.rows(node))
    for case in range(CASES):
        at = batch.offsets(case)
        expected = [(r.key, r.value, r.timestamp, *at[r.position]) for piece in batch.pieces(case) for r in piece]
        found = [
            (
                r["key"] and r["key"]["k"],
                r["value"] and r["value"]["v"],
                r["timestamp"],
                r["trigger"]["side"],
                r["trigger"]["offset"],
            )
            for r in rows.get(case, [])
        ]
        assert found == expected, case


@pytest.mark.cell(join="filter")
def test_a_filtered_table_is_folded(world: Make) -> None:
    a: Table = source(Pipeline("around"), "a", "table")
    node = a.filter("v = '1'", "out")
    here = world(a=TYPES)
    for records in ([(("x",), ("1",), 1, 0), (("y",), ("1",), 1, 0)], [(("x",), ("2",), 2, 0), (("z",), ("2",), 2, 0)]):
        here.publish(a, records)
        here.run(node)
    assert [(r["k"], r["v"]) for r in here.rows(node, "table")] == [("y", "1")]
