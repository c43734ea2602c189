"""Who judges: DuckDB, where it may; and Spark what is too large for it, or what it may understand otherwise."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.quality.judge import evaluate
from rivermeet.assets.quality.quality_table import remember
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.results import InvariantResult, Judged
from rivermeet.infra.epochs.context import EpochContext, Quality
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Node, Pipeline, limits
from tests.assets.home import project_in
from tests.expectations.clean import record
from tests.expectations.nodes import judged_on

CAST = "SELECT key FROM {rows} WHERE CAST(length(value.n) AS INT) > 2"


def clicks(query: str) -> Node:
    shop = Pipeline("shop")
    files = Files("none/*.csv", "csv", {"id": "INT", "n": "STRING", "at": "BIGINT"})
    node = shop.stream("clicks", files, key=["id"], value=["n"], timestamp="at")
    shop.check(node, "short", "A click is short.", query)
    return node


def judged(node: Node, engine: Any, tmp_path: Path, spark: Any = None) -> InvariantResult:
    """What becomes of the pipeline's own rule, where Spark is needed only if it is given."""

    def session() -> Any:
        assert spark is not None, "no session is needed"
        return spark

    quality = Quality(str(tmp_path / "quality"), tmp_path / "lock", engine, "1g", tmp_path / "spill")
    log = EpochLog(str(tmp_path / "log"), str(tmp_path / "log.lock"))
    context = EpochContext(str(tmp_path / "tables"), log, tmp_path, session, session, quality=quality)
    rows = [record(1, 5, 0, "abc", epoch=1), record(1, 5, 1, "ab", epoch=1)]
    (found,) = evaluate(context, node, [invariants_of(node)[-1]], judged_on(node, {"rows": rows}))
    return found


def test_what_means_the_same_is_judged_in_this_process(tmp_path: Path) -> None:
    found = judged(clicks("SELECT key FROM {rows} WHERE length(value.n) > 3"), "auto", tmp_path)
    assert (found.state, found.checked, found.judged_by, found.because) == ("passed", 2, "duckdb", "")


def test_what_duckdb_may_understand_otherwise_is_for_spark(tmp_path: Path, spark: Any) -> None:
    found = judged(clicks(CAST), "auto", tmp_path, spark)
    assert (found.state, found.violations, found.judged_by) == ("violated", 1, "spark")
    assert found.sql.startswith("/* For a session of Spark with Delta")
    assert found.because == "DuckDB may understand 'CAST(LENGTH(value.n) AS INT)' otherwise"


def test_without_spark_it_is_not_evaluated(tmp_path: Path) -> None:
    found = judged(clicks(CAST), "duckdb", tmp_path)
    assert (found.state, found.passed) == ("not evaluated", False)
    assert found.error == (
        "DuckDB may understand 'CAST(LENGTH(value.n) AS INT)' otherwise than Spark; set RIVERMEET_JUDGE=auto"
    )


def test_of_a_violation_by_an_expression_of_users_spark_has_the_last_word(tmp_path: Path, spark: Any) -> None:
    found = judged(clicks("SELECT key FROM {rows} WHERE length(value.n) > 2"), "auto", tmp_path, spark)
    assert (found.state, found.violations, found.judged_by) == ("violated", 1, "spark")
    assert found.sql.startswith("SELECT"), "and the query is for `rivermeet sql`"
    assert found.because == "DuckDB found violations by an expression of the pipeline's own"


def test_more_than_one_process_should_read_is_for_spark(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DUCKDB_BYTES", -1)
    found = judged(clicks("SELECT key FROM {rows} WHERE length(value.n) > 3"), "auto", tmp_path, spark)
    assert (found.state, found.judged_by) == ("passed", "spark")
    assert re.fullmatch(r"[\d,]+ bytes of files are more than -1", found.because)


def test_spark_alone(tmp_path: Path, spark: Any) -> None:
    found = judged(clicks("SELECT key FROM {rows} WHERE length(value.n) > 3"), "spark", tmp_path, spark)
    assert (found.state, found.judged_by, found.because) == ("passed", "spark", "RIVERMEET_JUDGE=spark")


def test_a_relation_that_is_missing_is_said(tmp_path: Path) -> None:
    node = clicks("SELECT key FROM {rows}")
    found = evaluate_nothing(node, tmp_path)
    assert (found.state, found.error) == ("not evaluated", "LookupError: no relation 'rows' was given")


def evaluate_nothing(node: Node, tmp_path: Path) -> InvariantResult:
    quality = Quality(str(tmp_path / "quality"), tmp_path / "lock", "duckdb", "1g", tmp_path / "spill")
    log = EpochLog(str(tmp_path / "log"), str(tmp_path / "log.lock"))

    def session() -> Any:
        raise AssertionError("no session is needed")

    context = EpochContext(str(tmp_path / "tables"), log, tmp_path, session, session, quality=quality)
    (found,) = evaluate(context, node, [invariants_of(node)[-1]], Judged({}))
    return found


def test_status_says_who_judged_and_why_it_was_spark(tmp_path: Path) -> None:
    node = clicks(CAST)
    project = project_in(tmp_path, Settings.from_env({}))
    because = "RIVERMEET_JUDGE=spark"
    *others, last = [InvariantResult(rule, 2, 0, [], "", 0.1) for rule in invariants_of(node)]
    found = [*others, replace(last, judged_by="spark", because=because)]
    remember(project.quality, node, 1, found, "run", "epoch-000001")
    title, *lines = status_table(project, node.pipeline).splitlines()
    assert title == f"{node.pipeline.name} (checks judged: {len(others)} by DuckDB, 1 by Spark)"
    assert lines[-1] == f"{node.name}: {because}, so Spark judged {last.invariant.id}"
