"""What cannot be evaluated is no pass; samples, counts and SQL are what a user can work with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from expectations.evaluate import Judged, Relation, evaluate
from expectations.history import SCHEMA, history
from expectations.invariants import invariants_of
from expectations.results import asked
from tests.expectations.nodes import judged_on, orders, owned, seen, sql_of
from tests.expectations.test_invariants import epoch_of

_STREAM_RULES = {invariant.id: invariant for invariant in invariants_of(seen)}
_BROKEN = _STREAM_RULES["record_shape"]


def _states(results: list[Any]) -> dict[str, str]:
    return {result.invariant.id: result.state for result in results}


def test_a_relation_that_is_missing_or_fails_leaves_only_its_invariants_unevaluated(spark: Any):
    epoch = epoch_of("seen")
    del epoch["changelog"]
    judged = judged_on(spark, seen, epoch)

    def gone() -> Relation:
        raise FileNotFoundError("version 3 is gone")

    judged = Judged({**judged.relations, "left": gone}, judged.checked)
    results = evaluate(spark, seen, invariants_of(seen), judged)
    states = _states(results)
    lost = {id for id, state in states.items() if state == "not evaluated"}
    assert lost == {
        *("pair_in_window", "made_of_values", "every_pair_in_window", "every_lonely_record"),
        "dense_changelog",
    }
    assert {states[id] for id in set(states) - lost} == {"passed"}
    by_id = {result.invariant.id: result for result in results}
    assert by_id["pair_in_window"].error == "FileNotFoundError: version 3 is gone"
    assert "changelog" in str(by_id["dense_changelog"].error)
    assert not any(by_id[id].passed or by_id[id].violations is not None for id in lost)


@pytest.mark.parametrize(
    "query",
    ["SELECT nothing FROM {rows}", "SELECT raise_error('no') AS x FROM {rows}", "SELEC", "{"],
    ids=["analysis", "run time", "grammar", "braces"],
)
def test_a_query_that_fails_fails_alone(spark: Any, query: str):
    broken = replace(_BROKEN, id="broken", violations=lambda node: query)
    rules = [_STREAM_RULES["dense_offsets"], broken, _STREAM_RULES["no_duplicate_pair"]]
    epoch = epoch_of("seen")
    epoch["rows"].append(epoch["rows"][0] | {"offset": 8})
    results = evaluate(spark, seen, rules, judged_on(spark, seen, epoch))
    assert list(_states(results).values()) == ["passed", "not evaluated", "violated"]
    assert results[1].error and results[1].violations is None


def test_a_sample_is_taken_without_a_limit(spark: Any, monkeypatch: pytest.MonkeyPatch):
    """Each LIMIT has a number of its own in generated code: all of the query would be compiled anew, every time."""
    plans = []

    def looked_at(spark: Any, query: str, relations: Any) -> Any:
        frame: Any = asked(spark, query, relations)
        plans.append(frame._explain_string(extended=True))
        return frame

    monkeypatch.setattr("expectations.evaluate.asked", looked_at)
    epoch = epoch_of("seen")
    epoch["rows"].append(epoch["rows"][0] | {"offset": 8})
    results = evaluate(spark, seen, invariants_of(seen), judged_on(spark, seen, epoch))
    assert "violated" in _states(results).values() and plans
    assert not [plan for plan in plans if "Limit" in plan]


def test_no_invariants_is_no_work(spark: Any):
    assert evaluate(spark, seen, [], Judged({})) == []


def test_counts_are_exact_where_the_sample_is_not_all(spark: Any):
    epoch = epoch_of("seen")
    epoch["rows"] += [epoch["rows"][0] | {"offset": 8 + i, "timestamp": None} for i in range(7)]
    rules = [_BROKEN, _STREAM_RULES["no_duplicate_pair"]]
    shape, pairs = evaluate(spark, seen, rules, judged_on(spark, seen, epoch), sample=3)
    assert (shape.violations, len(shape.sample), shape.checked) == (7, 3, 10)
    assert (pairs.violations, len(pairs.sample)) == (1, 1)
    # NULL is shown, and structs are JSON.
    assert shape.sample[0] | {"offset": ""} == {
        "partition": "0",
        "offset": "",
        "key": '{"id": 1}',
        "timestamp": "null",
    }


def test_rows_that_were_cached_stay_cached(spark: Any):
    sql = sql_of(seen, "rows", epoch_of("seen")["rows"])
    rows = spark.sql(f"SELECT * FROM {sql}").persist()
    rows.count()
    try:
        judged = Judged({"rows": lambda: Relation(rows, sql)})
        assert evaluate(spark, seen, [_BROKEN], judged)[0].passed
        assert rows.storageLevel.useMemory
    finally:
        rows.unpersist()


def test_relations_of_other_relations_stay_cached(spark: Any):
    rows = spark.range(3).selectExpr("id", "2 * id AS twice").persist()
    try:
        assert asked(spark, "SELECT twice FROM {rows} WHERE id = 1", {"rows": Relation(rows, "")}).collect() == [(2,)]
        assert rows.storageLevel.useMemory
    finally:
        rows.unpersist()


def test_column_names_may_hold_any_character(spark: Any):
    columns = ("a{b}", "back`tick", "two words")
    node = replace(orders, key={"the {key}": "INT"}, value=columns)
    values = dict.fromkeys(columns, "x")
    value = "STRUCT<`a{b}`: STRING, `back``tick`: STRING, `two words`: STRING>"
    record = {"key": {"the {key}": 1}, "value": values, "timestamp": 5, "partition": 0, "offset": 0, "epoch": 1}
    changelog = spark.createDataFrame(
        [record],
        f"key STRUCT<`the {{key}}`: INT>, value {value}, timestamp BIGINT, partition INT, offset BIGINT, epoch BIGINT",
    )
    table = spark.createDataFrame(
        [(1, "x", "x", "other", 5, 0, 0)],
        "`the {key}` INT, `a{b}` STRING, `back``tick` STRING, `two words` STRING, "
        "_timestamp BIGINT, _partition INT, _offset BIGINT",
    )
    was = table.where("false")
    bounds = spark.sql("SELECT 0 AS partition, 0L AS first_offset WHERE false")
    sizes = spark.sql("SELECT 0L AS before, 1L AS after")
    frames = {"changelog": changelog, "table": table, "now": table, "was": was}
    frames |= {"bounds": bounds, "sizes": sizes}
    judged = Judged({n: (lambda f=f: Relation(f, "(SELECT 1)")) for n, f in frames.items()})
    rules = [rule for rule in invariants_of(node) if rule.stage in ("table", "commit")]
    results = evaluate(spark, node, rules, judged)
    assert _states(results) == {
        "fold_equals_table": "violated",
        "unique_keys": "passed",
        "table_size": "passed",
        "dense_changelog": "passed",
    }


def test_the_sql_finds_the_rows_again_in_delta_tables(spark: Any, tmp_path: Path):
    epoch = epoch_of("owned")
    epoch["now"][0]["a"] = "other"
    relations = {}
    for name in ("changelog", "now"):
        path = tmp_path / name
        spark.sql(f"SELECT * FROM {sql_of(owned, name, epoch[name])}").write.format("delta").save(str(path))
        sql = f"(SELECT * FROM delta.`{path}` VERSION AS OF 0)"
        frame = spark.read.format("delta").option("versionAsOf", 0).load(str(path))
        relations[name] = lambda frame=frame, sql=sql: Relation(frame, sql)
    rules = [rule for rule in invariants_of(owned) if rule.id == "fold_equals_table"]
    results = evaluate(spark, owned, rules, Judged(relations))
    bad = next(result for result in results if not result.passed)
    (row,) = spark.sql(bad.sql).collect()
    assert (bad.invariant.id, bad.violations) == ("fold_equals_table", 1)
    assert (row.problem, row.stored.a, row.folded.a) == ("differs", "other", "a")
    assert json.loads(bad.sample[0]["stored"])["a"] == "other"


def test_history_has_a_row_for_each_result(spark: Any):
    epoch = epoch_of("seen")
    del epoch["left"]
    results = evaluate(spark, seen, invariants_of(seen), judged_on(spark, seen, epoch))
    lines = history(seen, 2, "run-1", results)
    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in SCHEMA.items()])
    rows = spark.createDataFrame(pa.Table.from_pylist(lines, schema)).collect()
    assert [row.invariant for row in rows] == [rule.id for rule in invariants_of(seen)]
    lost = next(row for row in rows if row.invariant == "pair_in_window")
    assert (lost.state, lost.violations, lost.checked) == ("not evaluated", None, 3)
    assert (lost.pipeline, lost.node, lost.epoch, lost.run) == ("shop", "seen", 2, "run-1")
