"""Every table of the documents that is no trace: matrices, rules, snapshots and interleavings, and what holds each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rivermeet.pipelines import DeclarationError, Files, JoinWindow, Pipeline
from tests.golden.load import tables
from tests.reference.records import Record
from tests.reference.stream_stream.profile_0_10_0 import StreamStreamEarlyJoin
from tests.reference.stream_stream.profile_3_1 import StreamStreamJoin
from tests.reference.tables.stream_table import StreamTableJoin
from tests.reference.tables.table_table import TableTableJoin

TESTS = Path(__file__).parents[1]
TABLES = {table["id"]: table for table in tables() if table["kind"] != "trace"}
HERE = "golden/test_tables.py"
RECORDED = "joins/tables/test_recorded_tables.py"
WINDOWED = "joins/aggregates/test_windowed_tables.py"
RACES = "reference/test_races.py::test_the_documents_interleavings_end_as_printed"
HELD: Mapping[str, str] = {
    "s000.matrix.": f"{HERE}::test_a_matrix_says_what_may_be_declared",
    "s002.matrix.": f"{HERE}::test_a_matrix_says_what_may_be_declared",
    "s000.sync.guarantees": "joins/epochs/test_waiting.py::test_no_cut_changes_a_join_that_waits_for_ever",
    "s001.race.": RACES,
    "s001.fkchange.": RACES,
    "s001.instructions": "reference/test_races.py::test_instructions_are_the_printed_ones",
    "s001.combined_key": "joins/tables/test_subscriptions.py::test_the_layout_is_the_documents",
    "s002.ss.rules.current": f"{HERE}::test_who_triggers_and_what_is_stored_in_0_10_0",
    "s002.st.rules.current": f"{HERE}::test_a_null_stream_value_triggers_in_0_10_0_only",
    "s002.tt.rules.current": f"{HERE}::test_when_a_tombstone_is_sent",
    "s002.suggested.rules": f"{HERE}::test_a_null_stream_value_triggers_in_0_10_0_only",
    "s002.tt.rules.tombstones": f"{HERE}::test_when_a_tombstone_is_sent",
    "s002.window.sql": f"{HERE}::test_the_windows_ends_are_inclusive_and_mirrored",
    "s002.st.sql": "golden/test_printed.py::test_all_records_at_once_at_every_profile_that_has_to_give_it",
    "s003.matrix.": f"{WINDOWED}::test_every_cell_of_the_page_is_declarable_or_refused_with_a_reason",
    "s003.api": f"{WINDOWED}::test_windows_of_one_table_meet_those_of_another_through_a_map",
    "s003.driver": f"{WINDOWED}::test_every_cell_of_the_page_is_declarable_or_refused_with_a_reason",
    "s003.invariants": f"{RECORDED}::test_the_folded_rows_are_the_batch_join_of_the_folded_tables",
    "s003.hopping.single_output": f"{WINDOWED}::test_two_records_in_two_hopping_windows_are_one_pair",
    "s003.wtable.last_week": f"{WINDOWED}::test_views_against_last_week",
    "s004.invoice.schema": "joins/lookups/test_stream_global.py::test_invoice_through_two_chained_look_ups",
    "s004.repartition_count": f"{HERE}::test_a_global_table_needs_no_repartitioning",
    "s004.lifecycle": "joins/lookups/test_stream_global.py::test_nasty_script_and_random_histories",
}
"""Start of a table's id to the test that asserts it."""


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_asserted_somewhere(table: str) -> None:
    file, _, name = HELD[max((start for start in HELD if table.startswith(start)), key=len)].partition("::")
    assert re.search(rf"^def {name}\(", (TESTS / file).read_text("utf-8"), re.MULTILINE), HELD


FILES = Files("none", "csv", {"k": "STRING", "n": "STRING", "ts": "BIGINT"})
VERBS = {"inner": "join", "left": "left_join", "outer": "outer_join"}


@pytest.mark.parametrize(
    ("table", "profile"),
    [
        ("s000.matrix.v0102", "0.10.2"),
        ("s000.matrix.v0102", "3.1"),
        ("s000.matrix.v0102", "kafka-4"),
        ("s000.matrix.v0100", "0.10.0"),
        ("s002.matrix.current", "0.10.0"),
        ("s002.matrix.suggested", "0.10.2"),
    ],
)
def test_a_matrix_says_what_may_be_declared(table: str, profile: str) -> None:
    matrix = TABLES[table]
    for kinds, cells in zip(matrix["rows"], matrix["cells"], strict=True):
        for how, offered in zip(matrix["columns"], cells, strict=True):
            pipeline = Pipeline("matrix")
            left, right = (
                (pipeline.stream if kind == "KStream" else pipeline.table)(
                    name, FILES, key=["k"], value={name: "n"}, timestamp="ts"
                )
                for name, kind in zip("ab", kinds.split("-"), strict=True)
            )
            window = {"window": JoinWindow(1, 1)} if kinds == "KStream-KStream" else {}
            verb = getattr(left, VERBS[how])
            if offered:
                assert verb(right, "joined", semantics=profile, **window).operation.semantics == profile
            else:
                with pytest.raises(DeclarationError):
                    verb(right, "joined", semantics=profile, **window)


def answers(join: Any, *records: tuple[str, Any, int]) -> list[list[Any]]:
    """Values of the rows that each record causes; all under one key."""
    given = [Record(side, "k", value, at, position=i) for i, (side, value, at) in enumerate(records)]
    return [[row.value for row in join.process(record)] for record in given]


def test_who_triggers_and_what_is_stored_in_0_10_0() -> None:
    for rule in TABLES["s002.ss.rules.current"]["rules"]:
        how = rule["variant"]
        for side, other in (("left", "right"), ("right", "left")):
            stored = rule["stored"][other] == "non-null"
            found = answers(StreamStreamEarlyJoin(how, 10, 10), (other, "o", 1), (side, "x", 2), (side, None, 3))
            emitted = any(None not in row for row in found[1])
            triggers = side in rule["triggers"] and stored
            assert emitted == triggers, (how, side)
            # A null value triggers as any other does.
            assert bool(found[2]) == (side in rule["triggers"] and (stored or how != "inner")), (how, side)


def test_a_null_stream_value_triggers_in_0_10_0_only() -> None:
    records = (("right", "t", 1), ("left", None, 2))
    assert answers(StreamTableJoin("left", "0.10.0"), *records)[1] == [(None, "t")]
    for profile in ("0.10.2", "3.1", "kafka-4"):
        assert answers(StreamTableJoin("left", profile), *records)[1] == []
    assert answers(StreamStreamJoin("outer", 10, 10, 0), ("left", "a", 1), ("right", None, 2))[1] == []
    # Both sides are stored, and a right record triggers where a left one waits.
    assert answers(StreamStreamJoin("left", 10, 10, 0), ("left", "a", 1), ("right", "b", 2))[1] == [("a", "b")]


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_when_a_tombstone_is_sent(how: str) -> None:
    """As worded, but for the left join of a row without partner: its delete ends the row (wiki page, time 12)."""
    rules = {rule["variant"]: rule["send_tombstone_iff"] for rule in TABLES["s002.tt.rules.tombstones"]["rules"]}
    for side, old, other in product(("left", "right"), (None, "o"), (None, "p")):
        partner = "right" if side == "left" else "left"
        found = answers(TableTableJoin(how, "3.1"), (side, old, 1), (partner, other, 2), (side, None, 3))
        ends = {
            "inner": old is not None and other is not None,
            "left": side == "left" and old is not None,
            "outer": old is not None and other is None,
        }[how]
        assert (found[2] == [None]) == ends, (side, old, other)
        early = answers(TableTableJoin(how, "0.10.0"), (side, old, 1), (partner, other, 2), (side, None, 3))
        # Of old, what is no row is a tombstone, whether there was one or not.
        one_sided = other is not None and (how == "outer" or (how == "left" and side == "right"))
        assert early[2] == [None] or one_sided, (side, old, other)
    assert set(rules) == {"inner", "left", "outer"}


def test_the_windows_ends_are_inclusive_and_mirrored() -> None:
    """The SQL of KIP-77 has before and after of a left record around a right one: the released reading, swapped."""
    before, after = 3, 5
    for left, right in product(range(20), range(20)):
        found = answers(StreamStreamJoin("inner", after, before, 100), ("left", "a", left), ("right", "b", right))
        assert bool(found[1]) == (right - before <= left <= right + after)


def test_a_global_table_needs_no_repartitioning() -> None:
    plans = {rule["plan"]: rule for rule in TABLES["s004.repartition_count"]["rules"]}
    pipeline = Pipeline("shop")
    facts = pipeline.stream("facts", FILES, key=["k"], value=["n"], timestamp="ts", partitions=7)
    dimension = pipeline.global_table("dimension", FILES, key=["k"], value={"d": "n"}, timestamp="ts")
    partitioned = pipeline.table("partitioned", FILES, key=["k"], value={"p": "n"}, timestamp="ts", partitions=2)
    facts.join(dimension, "priced", key="n")
    assert [node.name for node in pipeline.nodes] == ["facts", "dimension", "partitioned", "priced"]
    assert not plans["global tables"]["co_partitioning"] and plans["partitioned tables"]["co_partitioning"]
    with pytest.raises(DeclarationError, match="repartition"):
        facts.join(partitioned, "refused")
