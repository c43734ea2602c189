"""What Kafka Streams answered to foreign-key joins, against the references: row for row, in order."""

from collections.abc import Iterable
from typing import Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermeet.joins.foreign_key.reference.cached import CachedForeignKeyJoin
from rivermeet.joins.foreign_key.reference.join import ForeignKeyJoin
from rivermeet.joins.foreign_key.reference.profile_0_10_2 import ForeignKeyJoin30
from rivermeet.joins.reference.options import NetOfCommits, VersionedSides
from rivermeet.joins.reference.records import Join, Record, Row, run
from tests.reference.foreign_key.record import GROUPS, HOWS, RECORDED, cases
from tests.reference.histories import foreign_key_of, histories
from tests.reference.recording import by_group

Case = dict[str, Any]


class CommittedJoin(Join, Protocol):
    """A join that holds rows back until a commit."""

    def commit(self) -> list[Row]: ...


def reference_join(case: Case) -> CommittedJoin:
    """The reference join of a case's profile and options."""
    retention = {side: case.get(f"{side}_versioned_ms") for side in ("left", "right")}
    make = ForeignKeyJoin30 if case["semantics"] == "0.10.2" else ForeignKeyJoin
    join: Join = make(case["type"], foreign_key_of)
    if case.get("cache"):
        cached = tuple(side for side, ms in retention.items() if ms is None)
        join = CachedForeignKeyJoin(make(case["type"], foreign_key_of), cached, case.get("materialized", False))
    return VersionedSides(join, retention["left"], retention["right"])


def run_commits(join: CommittedJoin, records: Iterable[Record], every: int) -> list[Row]:
    """A commit after so many records, counting also those a table skips, and one at the end."""
    rows: list[Row] = []
    uncommitted = 0
    for record in records:
        rows += join.process(record)
        uncommitted += 1
        if uncommitted == every:
            rows += join.commit()
            uncommitted = 0
    return rows + (join.commit() if uncommitted else [])


def output(case: Case) -> list[Case]:
    """The reference's answer as the oracle writes it."""
    records = [Record(x["side"], x["key"], x["value"], x["ts"], position=i) for i, x in enumerate(case["input"])]
    rows = run_commits(reference_join(case), records, case.get("commit_every", 1))
    return [{"key": r.key, "value": text(r.value), "ts": r.timestamp, "in": r.trigger} for r in rows]


def text(value: tuple[Any, Any] | None) -> str | None:
    return value and "-".join("null" if part is None else part for part in value)


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[Case]]:
    """The recorded cases by profile, group and type."""
    return by_group(RECORDED)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("semantics", "name"), [*[g[:2] for g in GROUPS], *[(p, "by-hand") for p in ("kafka-4", "0.10.2")]]
)
def test_every_recorded_answer_is_the_references(
    recorded: dict[str, list[Case]], semantics: str, name: str, how: str
) -> None:
    group = recorded[f"fk.{semantics}.{name}.{how}"]
    assert [case["name"] for case in group if output(case) != case["output"]] == []


def test_the_recorded_cases_are_those_that_the_generator_gives(recorded: dict[str, list[Case]]) -> None:
    asked = [{k: v for k, v in case.items() if k != "output"} for group in recorded.values() for case in group]
    assert sorted(asked, key=lambda case: case["name"]) == sorted(cases(), key=lambda case: case["name"])


# --- commits ---


def fold(rows: list[Row]) -> dict[Any, Any]:
    table = {row.key: row.value for row in rows}
    return {key: value for key, value in table.items() if value is not None}


def test_kafka_loses_the_tombstone_of_an_inner_join_with_a_cache_and_profile_3_1_does_not(
    recorded: dict[str, list[Case]],
) -> None:
    (case,) = [c for c in recorded["fk.kafka-4.by-hand.inner"] if c["name"].endswith(".lost")]
    assert case["output"] == [{"key": "p1", "value": "f|1-x", "ts": 2, "in": 1}]  # f is gone, p1 is f|2
    records = [Record(x["side"], x["key"], x["value"], x["ts"], position=i) for i, x in enumerate(case["input"])]
    rows = run_commits(NetOfCommits(ForeignKeyJoin("inner", foreign_key_of)), records, 2)
    assert rows == [Row("p1", ("f|1", "x"), 2, 1, 1, 0, "f|1"), Row("p1", None, 3, 2, 1, 2, "f|1")]


@pytest.mark.parametrize("how", HOWS)
@given(h=histories("foreign_key"), every=st.integers(1, 8))
def test_a_commit_of_profile_3_1_is_the_net_change(how: str, h: list[Record], every: int) -> None:
    join = NetOfCommits(ForeignKeyJoin(how, foreign_key_of))
    plain = ForeignKeyJoin(how, foreign_key_of)
    emitted: list[Row] = []
    caused: list[Row] = []
    for start in range(0, len(h), every):
        before = fold(caused)
        since = run(plain, h[start : start + every])
        caused += since
        rows = run_commits(join, h[start : start + every], every)
        emitted += rows
        last = {row.key: row for row in since}
        assert {row.key: row for row in rows} == {k: r for k, r in last.items() if r.value is not None or k in before}
        assert [row.key for row in rows] == [
            r.key for i, r in enumerate(since) if last[r.key] is r and r.key in {x.key for x in rows}
        ]
        assert fold(emitted) == fold(caused)


@given(h=histories("foreign_key"), every=st.integers(1, 8), materialized=st.booleans())
def test_a_left_join_with_kafkas_cache_ends_as_without(h: list[Record], every: int, materialized: bool) -> None:
    join = CachedForeignKeyJoin(ForeignKeyJoin("left", foreign_key_of), materialized=materialized)
    assert fold(run_commits(join, h, every)) == fold(run(ForeignKeyJoin("left", foreign_key_of), h))
