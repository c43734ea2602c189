"""Where a record came from: the place that is kept, or what the plan of its epoch says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rivermeet.assets.why.changelogs import Changelog
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.postgres.wal_range import WalRange
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import JSON, DeltaTable, Kafka, Pipeline, Postgres, Text
from tests.assets.why.small import Small, small


@pytest.fixture
def home(tmp_path: Path) -> Small:
    return small(tmp_path)


def test_a_place_that_is_kept_is_the_place(home: Small) -> None:
    changelog = Changelog(home.project, home.planes)
    row = {**changelog.of_key({"tail": "N1"})[0], "origin": {"file": "in/a.csv.zip!a.csv", "line": 70}}
    found = changelog.origin_of(row)
    assert (found.file, found.line, found.says) == ("in/a.csv.zip!a.csv", 70, "in/a.csv.zip!a.csv, line 70")


def test_a_line_that_the_engine_has_not_counted_is_not_guessed(home: Small) -> None:
    changelog = Changelog(home.project, home.planes)
    path = str(home.data / "planes" / "1.csv")
    row = {**changelog.of_key({"tail": "N1"})[0], "origin": {"file": path, "line": None}}
    found = changelog.origin_of(row)
    assert (found.file, found.line) == (path, None)
    assert found.says == f"{path}, in a line that the engine has not counted"


def test_a_file_that_changed_since_is_named_as_such(home: Small) -> None:
    changelog = Changelog(home.project, home.planes)
    row = changelog.of_key({"tail": "N1"})[0]
    path = home.data / "planes" / "1.csv"
    kept = {**row, "origin": {"file": str(path), "line": 2}}
    assert changelog.origin_of(kept).says == f"{path}, line 2"
    path.write_text(path.read_text() + "N7,1,1\n")
    assert changelog.origin_of(kept).says == f"{path}, line 2 (the file was changed since it was read)"
    path.unlink()
    assert changelog.origin_of(kept).says == f"{path}, line 2"


def test_of_before_places_were_kept_the_files_of_the_plan_are_named(home: Small) -> None:
    changelog = Changelog(home.project, home.planes)
    row = {**changelog.of_key({"tail": "N1"})[0], "origin": None}
    found = changelog.origin_of(row)
    assert (found.file, found.line, found.says) == (str(path := home.data / "planes" / "1.csv"), None, str(path))


def test_a_record_of_a_topic(home: Small) -> None:
    made = Pipeline("till")
    orders = made.table("orders", Kafka("orders", key=Text("id"), value=JSON({"n": "INT"})), key=["id"], value=["n"])
    changelog = Changelog(home.project, orders)
    changelog.plans = [  # type: ignore[misc]
        EpochPlan(
            pipeline="till",
            node="orders",
            incarnation=1,
            epoch=1,
            reads=TopicSlice(topic="orders", id="x", ranges={0: (5, 9), 1: (2, 2)}),
        )
    ]
    row: dict[str, Any] = {"key": {"id": "a"}, "value": {"n": 1}, "epoch": 1}
    kept = changelog.origin_of({**row, "origin": {"file": "orders/3", "line": 7}})
    assert (kept.file, kept.line, kept.says) == ("orders/3", 7, "topic 'orders', partition 3, offset 7")
    assert changelog.origin_of(row).says == "topic 'orders', among the offsets of partition 0 from 5 to 8"


def test_rows_of_a_database_and_of_a_delta_table(home: Small) -> None:
    """As their origin has it, or as the plan of their epoch says it."""
    made = Pipeline("till")
    people = made.table("people", Postgres("shop.public.people", {"id": "STRING", "n": "INT"}, key="id"))
    stock = made.table("stock", DeltaTable("lake/stock", schema={"id": "STRING", "n": "INT"}), key=["id"])
    row: dict[str, Any] = {"key": {"id": "a"}, "value": {"n": 1}, "epoch": 1}
    plan = EpochPlan(pipeline="till", node="any", incarnation=1, epoch=1)
    of_people, of_stock = Changelog(home.project, people), Changelog(home.project, stock)
    of_people.plans = [plan.model_copy(update={"reads": WalRange(table="shop.public.people", start=1, end=22186192)})]  # type: ignore[misc]
    of_stock.plans = [plan.model_copy(update={"reads": VersionRange(path="lake/stock", id="x", start=3, end=5)})]  # type: ignore[misc]
    kept = of_people.origin_of({**row, "origin": {"file": "shop.public.people", "line": 22186192}})
    assert (kept.line, kept.says) == (22186192, "table 'shop.public.people', commit 0/15288D0")
    assert of_people.origin_of(row).says == "table 'shop.public.people', a commit before 0/15288D0"
    kept = of_stock.origin_of({**row, "origin": {"file": "lake/stock", "line": 4}})
    assert (kept.line, kept.says) == (4, "Delta table 'lake/stock', version 4")
    assert of_stock.origin_of(row).says == "one of versions 3 to 5 of Delta table 'lake/stock'"
