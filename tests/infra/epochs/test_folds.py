"""When tables are folded: what people read in each run, inputs when their tail has grown; and what lags meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.assets.epoch.materialise import materialise
from rivermeet.assets.epoch.run import Outcome
from rivermeet.assets.quality.judge_committed import judge_fold
from rivermeet.assets.quality.quality_table import last_states
from rivermeet.expectations.invariant import moment_of
from rivermeet.expectations.invariants import invariants_of
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.epochs.stages import fold as folds
from rivermeet.infra.epochs.stages.fold import Fold, Lag, is_read, lag_of
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import DeclarationError, Files, Node, Pipeline, limits
from tests.assets.home import Home, homed
from tests.builders import csv_file

pytestmark = pytest.mark.timeout(600)

PIPELINE = Pipeline("lagging")


def _table(name: str, key: str, **options: Any) -> Any:
    files = Files(f"{name}/*.csv", "csv", {key: "STRING", "ref": "STRING", "at": "BIGINT"})
    return PIPELINE.table(name, files, key=[key], value=["ref"], timestamp="at", partitions=2, **options)


ORDERS = _table("orders", "id")
PEOPLE = _table("people", "person", fold="run")
NAMED = ORDERS.left_join(PEOPLE, "named", foreign_key="ref", select={"who": "left.ref", "name": "right.ref"})
LIVE = NAMED.filter("name IS NOT NULL", "live")
BOTH = NAMED.outer_join(LIVE, "both", select={"l": "left.name", "r": "right.name"}, fold="run")

DELIVERIES = (
    {"orders": ["o1,p1,1", "o2,p2,2"], "people": ["p1,Ann,1", "p2,Bob,2"]},
    {"orders": ["o1,p2,3", "o3,p9,4"], "people": ["p2,Rob,5"]},
    {"orders": ["o2,p9,6"], "people": ["p9,Eve,7"]},
)
STEPS = {
    1: {"o1": ("p1", "Ann"), "o2": ("p2", "Bob")},
    2: {"o1": ("p2", "Rob"), "o2": ("p2", "Rob"), "o3": ("p9", None)},
    3: {"o1": ("p2", "Rob"), "o2": ("p9", "Eve"), "o3": ("p9", "Eve")},
}
"""The rows of ``named`` after each delivery."""


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[Home]:
    with homed(PIPELINE, tmp_path_factory.mktemp("lagging"), settings, fold="due") as found:
        yield found


def deliver(home: Home, number: int) -> None:
    for source, lines in DELIVERIES[number - 1].items():
        key = "id" if source == "orders" else "person"
        csv_file(home.data / source / f"{number}.csv", f"{key},ref,at", *lines)


def run(home: Home, number: int) -> dict[str, Outcome]:
    return {node.name: materialise(home.project, node, f"run-{number}") for node in PIPELINE.stored}


def folded_to(home: Home, node: Node) -> int | None:
    found = last_note(home.project.context(PIPELINE).paths(node).table)
    return found[1].epoch if found else None


def rows(home: Home, spark: SparkSession, node: Node) -> dict[str, tuple[Any, ...]]:
    path = home.project.context(PIPELINE).paths(node).table
    return {row[0]: tuple(row[1 : 1 + len(node.value)]) for row in read(spark, path).collect()}


def test_what_is_read_by_others() -> None:
    assert [is_read(node) for node in (ORDERS, PEOPLE, NAMED, LIVE, BOTH)] == [True, True, True, True, False]


def test_a_fold_is_declared_as_run_or_due() -> None:
    with pytest.raises(DeclarationError, match="'often'; give 'run', 'due' or None"):
        _table("wrong", "k", fold="often")
    files = Files("s/*.csv", "csv", {"k": "STRING", "at": "BIGINT"})
    with pytest.raises(DeclarationError, match="a stream is not folded"):
        PIPELINE.stream("wrong", files, key=["k"], value=["at"], timestamp="at", fold="run")


@pytest.mark.prove
def test_tables_lag_and_joins_do_not(home: Home, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    context = home.project.context(PIPELINE)
    for number in (1, 2):
        deliver(home, number)
        outcomes = run(home, number)
        assert all(v.passed for o in outcomes.values() if o.judgement for v in o.judgement.verdicts)
        assert [folded_to(home, node) for node in (PEOPLE, BOTH)] == [number, number]
        # The first fold makes the table; then nothing is due, with so few records.
        assert [folded_to(home, node) for node in (ORDERS, NAMED, LIVE)] == [1, 1, 1]
        assert {key: value[:1] for key, value in rows(home, spark, BOTH).items()} == {
            key: (name,) for key, (_, name) in STEPS[number].items()
        }
    note = last_note(context.paths(NAMED).changelog)
    assert note is not None
    lag = lag_of(context, NAMED, note[1])
    assert lag is not None and lag.epochs == 1 and lag.records > 0

    monkeypatch.setattr(limits, "TAIL_RECORDS", 0)
    deliver(home, 3)
    outcomes = run(home, 3)
    assert [folded_to(home, node) for node in PIPELINE.stored] == [3, 3, 3, 3, 3]
    assert rows(home, spark, NAMED) == STEPS[3]
    folded = outcomes["named"].folded
    assert folded is not None and folded.epoch == 3
    assert {v.invariant.id: v.state for v in folded.verdicts} == dict.fromkeys(of_fold(NAMED), "passed")
    # Two epochs' rows, judged as one; rules about the table read all of it.
    by_rows = {v.invariant.id: v.checked for v in folded.verdicts if v.scope == "epoch"}
    assert by_rows == dict.fromkeys(("fold_equals_table", "table_size"), lag.records + _rows_of(outcomes["named"]))


@pytest.mark.prove
def test_verdicts_of_a_table_that_lags_are_of_its_last_fold(home: Home) -> None:
    context = home.project.context(PIPELINE)
    for number in (1, 2):
        deliver(home, number)
        run(home, number)
    states = last_states(home.project.quality, NAMED, 2)
    assert {name: state.epoch for name, state in states.items() if name in of_fold(NAMED)} == dict.fromkeys(
        of_fold(NAMED), 1
    )
    assert {state.epoch for name, state in states.items() if name not in of_fold(NAMED)} == {2}
    assert {state.state for state in states.values()} == {"passed"}
    # A wrong row of one epoch is found by the fold over both.
    note = last_note(context.paths(NAMED).changelog)
    assert note is not None and not Fold(NAMED).is_due(context, note[1])
    assert lag_of(context, NAMED, note[1]) != Lag(0, 0)
    assert judge_fold(context, NAMED, "again", 0.0) is not None


@pytest.mark.parametrize(
    ("rows", "records"),
    [
        (10, 10_000),
        (200_000, 20_000),
        (1_000_000, 100_000),
        # More keys than a join broadcasts: each epoch would sort the table.
        (50_000_000, 100_000),
    ],
)
def test_a_tail_of_more_records_than_these_is_due(rows: int, records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = SimpleNamespace(folds="due", paths=lambda node: SimpleNamespace(table=""))
    monkeypatch.setattr(folds, "open_table", lambda path: path)
    monkeypatch.setattr(folds, "rows_in", lambda table: rows)
    note = CommitNote(incarnation=1, epoch=4, ends={})
    for more in (0, 1):
        monkeypatch.setattr(folds, "lag_of", lambda *_, more=more: Lag(3, records + more))
        assert Fold(ORDERS).is_due(context, note) == bool(more)


def of_fold(node: Node) -> list[str]:
    return [rule.id for rule in invariants_of(node) if moment_of(rule, node) == "fold"]


def _rows_of(outcome: Outcome) -> int:
    assert outcome.result is not None
    return outcome.result.rows
