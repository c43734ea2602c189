"""What Kafka Streams answered, against the reference joins: row for row, in order."""

from typing import Any

import pytest

from rivermeet.joins.reference.records import Join, Record, Row, run
from rivermeet.joins.stream_stream.reference.profile_0_10_0 import StreamStreamEarlyJoin
from rivermeet.joins.stream_stream.reference.profile_0_10_2 import StreamStreamEagerJoin
from rivermeet.joins.stream_stream.reference.profile_kafka_4 import (
    StreamStreamKafka4Join,
    StreamStreamKafka4SelfJoin,
    TwiceSelfJoin,
)
from tests.reference.recording import by_group
from tests.reference.stream_stream.record import GROUPS, RECORDED, cases

Case = dict[str, Any]


def reference_join(case: Case) -> Join:
    """The reference join of a case's profile and options."""
    window = case["window"]
    before, after, grace = window["before_ms"], window["after_ms"], window["grace_ms"]
    if case["semantics"] == "0.10.0":
        return StreamStreamEarlyJoin(case["type"], before, after)
    if case["semantics"] == "0.10.2":
        return StreamStreamEagerJoin(case["type"], before, after, grace)
    if case.get("eager"):
        return StreamStreamEagerJoin(case["type"], before, after, grace, kafka4=True)
    if not case.get("self"):
        return StreamStreamKafka4Join(case["type"], before, after, grace)
    if case["optimize"] == "all":
        return StreamStreamKafka4SelfJoin(before, after, grace)
    return TwiceSelfJoin(StreamStreamKafka4Join("inner", before, after, grace))


def output(case: Case) -> list[Case]:
    """The reference's answer as the oracle writes it."""
    records = [Record(x["side"], x["key"], x["value"], x["ts"], position=i) for i, x in enumerate(case["input"])]
    return [as_written(row) for row in run(reference_join(case), records)]


def as_written(row: Row) -> Case:
    assert row.value is not None
    value = "-".join("null" if v is None else v for v in row.value)
    return {"key": row.key, "value": value, "ts": row.timestamp, "in": row.trigger}


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[Case]]:
    """The recorded cases by profile and name of the group."""
    return by_group(RECORDED)


@pytest.mark.parametrize(("semantics", "name", "n"), [(g[0], g[1], g[4]) for g in GROUPS])
def test_every_recorded_answer_is_the_references(
    recorded: dict[str, list[Case]], semantics: str, name: str, n: int
) -> None:
    group = recorded[f"ss.{semantics}.{name}"]
    assert len(group) == n
    assert [case["name"] for case in group if output(case) != case["output"]] == []


def test_the_recorded_cases_are_those_that_the_generator_gives(recorded: dict[str, list[Case]]) -> None:
    asked = [{k: v for k, v in case.items() if k != "output"} for group in recorded.values() for case in group]
    assert asked == cases()
