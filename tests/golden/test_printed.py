"""Every table that the documents print, through ``rivermeet replay``: at once, in any cut, and through real epochs."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from rivermeet.assets.replay.by_reference import by_reference
from rivermeet.assets.replay.epochs import in_epochs
from rivermeet.assets.replay.run import Way, at_once, replay
from tests.golden import foreign_key, one_to_many, stream_stream, stream_table, table_table
from tests.golden.load import cases
from tests.golden.printed import Printed, check_answers, check_printed
from tests.joins.epochs.in_steps import each_alone, in_pieces, in_steps

TABLES = {
    "stream-stream": stream_stream.TABLES,
    "stream-table": stream_table.TABLES,
    "table-table": table_table.TABLES,
    "fk-table-table": foreign_key.TABLES,
    "one-to-many": one_to_many.TABLES,
}
CACHED = [table for table in table_table.TABLES if "cache" in table.options]
JOINS = pytest.mark.parametrize("join", TABLES)


def uncached(join: str) -> list[Printed]:
    """Without the table whose rows depend on the cut: an epoch is a commit of its cache."""
    return [table for table in TABLES[join] if table not in CACHED]


def test_every_trace_is_printed_here() -> None:
    here = {(table.join, how, table.id) for tables in TABLES.values() for table in tables for how in table.types}
    given = {(case.join, case.how, case.id.removesuffix(f".{case.how}")) for case in cases() if case.profiles}
    assert {trace for trace in given if trace[0] in TABLES} == here
    assert sum(len(table.types) * len(table.profiles) for tables in TABLES.values() for table in tables) > 90


@pytest.mark.both_engines
@JOINS
def test_all_records_at_once_at_every_profile_that_has_to_give_it(spark: SparkSession, join: str) -> None:
    check_printed(spark, TABLES[join], at_once)


@JOINS
def test_the_references_alone_at_every_profile_that_has_to_give_it(join: str) -> None:
    check_answers(lambda cases: by_reference(cases, "3.1"), TABLES[join])


@pytest.mark.slow
@JOINS
def test_one_record_per_epoch(spark: SparkSession, join: str) -> None:
    check_printed(spark, uncached(join), in_steps(each_alone), every_profile=False)


@pytest.mark.parametrize(
    "way",
    [in_steps(in_pieces(3)), pytest.param(in_epochs(3), marks=pytest.mark.prove)],
    ids=["in steps", "in real epochs"],
)
def test_a_cached_table_ends_the_same_in_any_cut(spark: SparkSession, way: Way) -> None:
    (table,) = CACHED
    given = [table.case(how, "3.1") for how in table.types]
    for case, how, answer in zip(given, table.types, replay(spark, given, "3.1", way), strict=True):
        folded = {row["key"]: row["value"] for row in answer["output"]}
        assert folded == {key: value for _, key, value in table.rows(how)}, case["name"]


@pytest.mark.slow
@pytest.mark.parametrize("join", [pytest.param("stream-stream", marks=pytest.mark.prove), "fk-table-table"])
def test_the_first_table_through_real_epochs(spark: SparkSession, join: str) -> None:
    """Plans, commits, folds; other families go this way in their own tests."""
    first, *_ = TABLES[join]
    check_printed(spark, [first], in_epochs(3), every_profile=False)


@pytest.mark.prove
@pytest.mark.timeout(1800)
@JOINS
def test_every_table_in_three_real_epochs(spark: SparkSession, join: str) -> None:
    check_printed(spark, uncached(join), in_epochs(3), every_profile=False)


@pytest.mark.prove
@pytest.mark.timeout(3600)
@JOINS
def test_one_record_per_real_epoch(spark: SparkSession, join: str) -> None:
    # One by one: a short trace would wait for the longest of all through epochs of nothing.
    for profile in {table.profiles[0] for table in uncached(join)}:
        tables = [table for table in uncached(join) if table.profiles[0] == profile]
        longest = max(len(table.case(table.types[0], profile)["input"]) for table in tables)
        check_printed(spark, tables, in_epochs(longest), every_profile=False)
