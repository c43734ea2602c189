"""What cannot be evaluated is no pass; samples, counts and SQL are what a user can work with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.judge.evaluation import Judge
from rivermeet.expectations.judge.spark import OnEngine
from rivermeet.expectations.results import SCHEMA, Judged, Relation, history
from tests.expectations.nodes import IN_PROCESS, json_part, judged_on, orders, seen
from tests.expectations.test_invariants import epoch_of

_STREAM_RULES = {invariant.id: invariant for invariant in invariants_of(seen)}
_BROKEN = _STREAM_RULES["record_shape"]


@pytest.fixture(params=["duckdb", "spark"])
def judge(request: pytest.FixtureRequest) -> Judge:
    """Each engine."""
    if request.param == "duckdb":
        return IN_PROCESS
    spark = request.getfixturevalue("spark")
    return OnEngine(lambda: spark)


def _states(results: list[Any]) -> dict[str, str]:
    return {result.invariant.id: result.state for result in results}


def test_a_relation_that_is_missing_or_fails_leaves_only_its_invariants_unevaluated(judge: Judge):
    epoch = epoch_of("seen")
    del epoch["changelog"]
    judged = judged_on(seen, epoch)

    def gone() -> Relation:
        raise FileNotFoundError("version 3 is gone")

    judged = Judged({**judged.relations, "left": gone}, judged.checked)
    results = judge.evaluate(seen, invariants_of(seen), judged)
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
def test_a_query_that_fails_fails_alone(judge: Judge, query: str):
    broken = replace(_BROKEN, id="broken", violations=lambda node: query)
    rules = [_STREAM_RULES["dense_offsets"], broken, _STREAM_RULES["no_duplicate_pair"]]
    epoch = epoch_of("seen")
    epoch["rows"].append(epoch["rows"][0] | {"offset": 8})
    results = judge.evaluate(seen, rules, judged_on(seen, epoch))
    assert list(_states(results).values()) == ["passed", "not evaluated", "violated"]
    assert results[1].error and results[1].violations is None


def test_no_invariants_is_no_work(judge: Judge):
    assert judge.evaluate(seen, [], Judged({})) == []


def test_counts_are_exact_where_the_sample_is_not_all(judge: Judge):
    epoch = epoch_of("seen")
    epoch["rows"] += [epoch["rows"][0] | {"offset": 8 + i, "timestamp": None} for i in range(7)]
    rules = [_BROKEN, _STREAM_RULES["no_duplicate_pair"]]
    shape, pairs = judge.evaluate(seen, rules, judged_on(seen, epoch), sample=3)
    assert (shape.violations, len(shape.sample), shape.checked) == (7, 3, 10)
    assert (pairs.violations, len(pairs.sample)) == (1, 1)
    # NULL is shown, and structs are JSON.
    assert shape.sample[0] | {"offset": ""} == {
        "partition": "0",
        "offset": "",
        "key": '{"id": 1}',
        "timestamp": "null",
    }


def test_column_names_may_hold_any_character(judge: Judge):
    columns = ("a{b}", "back`tick", "two words")
    node = replace(orders, key={"the {key}": "INT"}, value=columns)
    values = dict.fromkeys(columns, "x")
    value = "STRUCT<`a{b}`: STRING, `back``tick`: STRING, `two words`: STRING>"
    record = {"key": {"the {key}": 1}, "value": values, "timestamp": 5, "partition": 0, "offset": 0, "epoch": 1}
    kind = (
        f"key STRUCT<`the {{key}}`: INT>, value {value}, timestamp BIGINT, partition INT, offset BIGINT, epoch BIGINT"
    )
    changelog = json_part(kind, [record])
    flat = "`the {key}` INT, `a{b}` STRING, `back``tick` STRING, `two words` STRING"
    stored = {"the {key}": 1, **values, "two words": "other", "_timestamp": 5, "_partition": 0, "_offset": 0}
    table = json_part(f"{flat}, _timestamp BIGINT, _partition INT, _offset BIGINT", [stored])

    def folded(condition: str) -> Relation:
        rows = f"SELECT * FROM {{table}} WHERE {condition}"
        return Relation(rows, {"table": table}, ["`the {{key}}`"], is_folded=True)

    relations = {"table": folded("true"), "now": folded("true"), "was": folded("false")}
    relations["changelog"] = Relation("SELECT * FROM {given}", {"given": changelog})
    relations["bounds"] = Relation("SELECT 0 AS partition, 0L AS first_offset WHERE false")
    relations["sizes"] = Relation("SELECT 0L AS before, 1L AS after")
    judged = Judged({name: (lambda one=one: one) for name, one in relations.items()})
    rules = [rule for rule in invariants_of(node) if rule.stage in ("table", "commit")]
    results = judge.evaluate(node, rules, judged)
    assert _states(results) == {
        "fold_equals_table": "violated",
        "unique_keys": "passed",
        "table_size": "passed",
        "dense_changelog": "passed",
    }


def test_history_has_a_row_for_each_result():
    epoch = epoch_of("seen")
    del epoch["left"]
    results = IN_PROCESS.evaluate(seen, invariants_of(seen), judged_on(seen, epoch))
    lines = history(seen, 2, "run-1", results)
    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in SCHEMA.items()])
    rows = pa.Table.from_pylist(lines, schema).to_pylist()
    assert [row["invariant"] for row in rows] == [rule.id for rule in invariants_of(seen)]
    lost = next(row for row in rows if row["invariant"] == "pair_in_window")
    assert (lost["state"], lost["violations"], lost["checked"]) == ("not evaluated", None, 3)
    assert (lost["pipeline"], lost["node"], lost["epoch"], lost["run"]) == ("shop", "seen", 2, "run-1")
    assert {row["judged_by"] for row in rows} == {"duckdb"}
