"""Every row of every family, computed by its operator: the records that are named are those that it was made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rivermeet.assets.epoch.operator_step import step_of
from rivermeet.assets.epoch.run import run_epoch
from rivermeet.assets.why.answer import Cause, Explained
from rivermeet.assets.why.changelogs import Changelogs
from rivermeet.assets.why.records import Expressions
from rivermeet.assets.why.walk import Walk
from rivermeet.infra.delta.few_rows import few_rows
from rivermeet.infra.settings import Settings
from tests.assets.home import Home, homed
from tests.assets.why.every_family import DELIVERIES, PIPELINE, deliver

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]
JOINS = [node.name for node in PIPELINE.stored if node.operation is not None and set(node.value) == {"a", "b"}]
OTHERS = [node.name for node in PIPELINE.stored if node.operation is not None and node.name not in JOINS]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[Home]:
    with homed(PIPELINE, tmp_path_factory.mktemp("families"), settings) as made:
        unjudged = replace(made.project.context(PIPELINE), quality=None)
        for delivery in range(1, DELIVERIES + 1):
            deliver(made.data, delivery)
            for node in PIPELINE.stored:
                run_epoch(unjudged, step_of(made.project, node))
        yield made


def no_engine() -> Any:
    raise AssertionError("no engine is needed")


def walk(home: Home) -> Walk:
    return Walk(Changelogs(home.project), Expressions(None))


def rows_of(home: Home, name: str) -> list[dict[str, Any]]:
    path = home.project.paths(PIPELINE.node(name)).changelog
    return sorted(few_rows(path, [], no_engine), key=lambda row: (row["partition"], row["offset"]))


def leaves(row: Explained) -> Iterator[Explained]:
    if row.origin is not None:
        yield row
    for cause in row.causes:
        if cause.row is not None:
            yield from leaves(cause.row)


def number(cause: Cause | None, name: str = "n") -> int | None:
    return None if cause is None or cause.row is None or cause.row.value is None else cause.row.value[name]


@pytest.mark.parametrize("name", JOINS)
def test_a_joins_row_is_made_of_the_records_that_are_named(home: Home, name: str) -> None:
    walked, node, checked = walk(home), PIPELINE.node(name), 0
    for row in rows_of(home, name):
        found = walked.explain(node, row)
        # What triggers a row and is no part of it comes last.
        sides: dict[str, Cause] = {}
        for cause in found.causes:
            sides.setdefault(cause.side, cause)
        left, right = sides.get("left"), sides.get("right")
        if row["value"] is not None:
            made = number(left, "a" if name == "chained" else "n"), number(right)
            assert made == (row["value"]["a"], row["value"]["b"]), (row, found)
            checked += 1
        else:
            assert None in (number(left, "a" if name == "chained" else "n"), number(right)) or found.says, (row, found)
        assert any(cause.role == "trigger" for cause in found.causes) or node.operation.cache  # type: ignore
    assert checked


@pytest.mark.parametrize("name", [*JOINS, *OTHERS])
def test_every_row_leads_to_lines_that_have_its_records(home: Home, name: str) -> None:
    walked, node = walk(home), PIPELINE.node(name)
    for row in rows_of(home, name):
        ends = list(leaves(walked.explain(node, row)))
        assert ends
        for end in ends:
            assert end.origin is not None and end.origin.file is not None and end.key is not None
            assert end.origin.line is not None
            line = json.loads(Path(end.origin.file).read_text().splitlines()[end.origin.line - 1])
            assert line["id"] == next(iter(end.key.values()))
            assert line["at"] == end.timestamp
            assert (end.value is None) == line["gone"]
            assert end.value is None or line["n"] == end.value["n"]


def test_a_view_shows_both_of_its_tables(home: Home) -> None:
    walked, node, both = walk(home), PIPELINE.node("viewed"), 0
    cities = {row["offset"]: row["key"]["id"] for row in rows_of(home, "cities")}
    for row in rows_of(home, "viewed"):
        right = next(cause for cause in walked.explain(node, row).causes if cause.side == "right")
        if right.row is None or right.row.value is None:
            continue
        (city,) = right.row.causes
        assert (right.node, city.node) == ("names", "cities")
        if city.row is not None:
            assert cities[city.row.offset] == right.row.value["who"]
            both += 1
    assert both


@pytest.mark.parametrize("name", ["kept", "kept_orders", "doubled", "latest", "changes", "moved", "merged"])
def test_a_forwarded_row_has_its_record_as_its_trigger(home: Home, name: str) -> None:
    walked, node = walk(home), PIPELINE.node(name)
    for row in rows_of(home, name):
        (cause,) = walked.explain(node, row).causes
        assert cause.role == "trigger"
        if row["value"] is not None:
            assert number(cause) == row["value"]["n"]


@pytest.mark.parametrize("name", [*JOINS, *OTHERS])
def test_a_key_without_a_row_has_a_reason(home: Home, name: str) -> None:
    walked, node, rows = walk(home), PIPELINE.node(name), rows_of(home, name)
    last = {repr(row["key"]): row for row in rows if row["key"] is not None}
    gone = [row["key"] for row in last.values() if row["value"] is None and node.is_table]
    kind = walked.changelogs.of(node).key_type
    nobody = {field.name: "no such" if field.type == "string" else 0 for field in kind}
    for key in [*gone, nobody]:
        answer = walked.why(node, key, 10)
        assert not answer.live and answer.absent
        assert {reason.code for reason in answer.absent} & {"unexplained", "unknown"} == set(), answer.absent
