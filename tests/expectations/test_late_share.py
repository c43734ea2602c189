"""Every dropped record is in the late table with its reason, and a check shows which share they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rivermeet.assets.quality.judge import _late as late_of
from rivermeet.expectations.judge.duck import create_view, database
from rivermeet.expectations.results import InvariantResult, Judged
from rivermeet.expectations.rules.late import MAX_LATE_SHARE, RULES
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.engine.session import new_session
from rivermeet.infra.epochs.stages.commit import Commit
from rivermeet.infra.epochs.stages.write import Written
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline, TimeWindows, limits
from rivermeet.pipelines.operations import count
from tests.assets.home import asked
from tests.expectations.nodes import IN_PROCESS, clicks, names, owned, relation_of, seen
from tests.infra.delta.odd_names import NUMBER, PRICE, Shop
from tests.joins.epochs.batch import FILES, TYPES, stream_and_global, two_streams
from tests.reliability import survived
from tests.world import Record, World

pytestmark = pytest.mark.slow

(RULE,) = RULES
COLUMNS = ["side", "key", "value", "timestamp", "partition", "offset", "stream_time", "close", "reason", "epoch"]


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> World:
    return World(tmp_path, spark, new_session(spark), {name: TYPES for name in "abt"})


def joined() -> Node:
    left, right = two_streams()
    window = JoinWindow(5, 5, grace=5)
    return left.left_join(right, "out", window=window, select={"l": "left.v", "r": "right.v"})


def paired() -> Node:
    left, right = two_streams()
    return left.join(right, "out", window=JoinWindow(5, 5), select={"l": "left.v", "r": "right.v"})


def with_itself() -> Node:
    (left, _) = two_streams()
    return left.join(left, "out", window=JoinWindow(5, 5), select={"l": "left.v", "r": "right.v"})


def released(how: str = "left", eager: bool = False) -> Node:
    left, right = two_streams()
    verb = {"left": left.left_join, "inner": left.join}[how]
    window = JoinWindow(5, 5, grace=5)
    return verb(right, "out", window=window, select={"l": "left.v"}, semantics="kafka-4", eager=eager)


def released_itself() -> Node:
    (left, _) = two_streams()
    select = {"l": "left.v", "r": "right.v"}
    return left.join(left, "out", window=JoinWindow(5, 5), select=select, semantics="kafka-4", optimized=True)


def enriched(how: str, semantics: str = "3.1") -> Node:
    left = two_streams()[0]
    table = left.pipeline.table("t", FILES, key=["k"], value=["v"], timestamp="ts")
    verb = {"left": left.left_join, "inner": left.join}[how]
    return verb(table, "out", select={"l": "left.v"}, semantics=semantics)


def localised(how: str, semantics: str = "3.1") -> Node:
    left, table = stream_and_global()
    verb = {"left": left.left_join, "inner": left.join}[how]
    return verb(table, "out", key="nullif(v, 'lost')", select={"l": "left.v"}, semantics=semantics)


def windowed() -> Node:
    return two_streams()[0].group_by_key().windowed_by(TimeWindows(10)).aggregate({"n": count()}, "out")


def as_table() -> Node:
    return two_streams()[0].to_table("out")


LOST = {(0, 1): ("no key", None, None)}
LOOK_UPS: dict[str, tuple[Callable[[], Node], dict[tuple[int, int], tuple[Any, ...]]]] = {
    "stream-table, inner": (lambda: enriched("inner"), LOST),
    "stream-table, inner, kafka-4": (lambda: enriched("inner", "kafka-4"), LOST),
    "stream-table, left": (lambda: enriched("left"), {}),
    "stream-table, left, 0.10.2": (lambda: enriched("left", "0.10.2"), LOST),
    "stream-global, inner": (lambda: localised("inner"), LOST),
    "stream-global, left": (lambda: localised("left"), {}),
    "stream-global, left, 0.10.2": (lambda: localised("left", "0.10.2"), LOST),
}
PAST: list[Record] = [
    (("k",), ("x",), 30, 0),
    (("k",), ("past",), 15, 0),
    (None, ("lost",), 31, 0),
    (("k",), ("y",), 16, 0),
]
CLOSED = {(0, 1): ("closed at 30 ms when stream time was 30 ms", 30, 30)}
RELEASED: dict[str, tuple[Callable[[], Node], list[Record], dict[tuple[int, int], tuple[Any, ...]]]] = {
    "kafka-4": (released, PAST, CLOSED),
    "kafka-4, eager": (lambda: released(eager=True), PAST, CLOSED),
    "kafka-4, inner": (lambda: released("inner"), PAST, {**CLOSED, (0, 2): ("no key", None, None)}),
    "kafka-4, with itself": (
        released_itself,
        [(("k",), ("x",), 30, 0), (("k",), ("past",), 20, 0), (None, ("lost",), 31, 0), (("k",), ("y",), 21, 0)],
        {**CLOSED, (0, 2): ("no key", None, None)},
    ),
}


def dropped(world: World, node: Node, *records: Record) -> list[dict[str, Any]]:
    """The late table after one epoch with these records on the left."""
    assert node.operation is not None
    for side, given in node.operation.inputs.items():
        world.publish(given, records if side == "left" else [])
    result = world.run(node)
    assert result is not None
    if result.sides == {}:
        return []
    found = world.rows(node, "late")
    assert result.sides == {"late": len(found)}
    return found


@pytest.mark.parametrize(
    ("make", "records", "reasons"),
    [
        (
            joined,
            [(("k",), ("x",), 30, 0), (("k",), ("late",), 20, 0), (("k",), ("open",), 21, 0), (("k",), ("y",), 9, 1)],
            {(0, 1): ("closed at 30 ms when stream time was 30 ms", 30, 30)},
        ),
        (
            windowed,
            [(("k",), ("x",), 25, 0), (("k",), ("open",), 20, 0), (("k",), ("late",), 3, 0), (("k",), ("y",), 3, 1)],
            {(0, 2): ("closed at 10 ms when stream time was 25 ms", 25, 10)},
        ),
        (
            paired,
            [(("k",), ("x",), 25, 0), (None, ("lost",), 26, 0), (None, None, 3, 0)],
            {(0, 1): ("no key", None, None)},
        ),
        (
            with_itself,
            [(("k",), ("x",), 25, 0), (None, ("lost",), 26, 0)],
            {(0, 1): ("no key", None, None)},
        ),
        (
            windowed,
            [(("k",), ("x",), 5, 0), (None, ("lost",), 6, 0), (("k",), ("early",), -3, 0), (None, None, 3, 0)],
            {(0, 1): ("no key", None, None), (0, 2): ("before 1970, where no window is", None, None)},
        ),
        (
            as_table,
            [(("k",), ("x",), 25, 0), (None, ("lost",), 26, 0), (("k",), None, 3, 0)],
            {(0, 1): ("no key", None, None)},
        ),
        *((make, [(("k",), ("x",), 25, 0), (None, ("lost",), 26, 0)], kept) for make, kept in LOOK_UPS.values()),
        *RELEASED.values(),
    ],
    ids=["stream-stream", "windowed-aggregate", "inner", "self-join", "no window", "to-table", *LOOK_UPS, *RELEASED],
)
def test_a_dropped_record_is_kept_with_its_reason(
    world: World, make: Callable[[], Node], records: list[Record], reasons: dict[tuple[int, int], tuple[Any, ...]]
) -> None:
    found = dropped(world, make(), *records)
    assert [list(row) for row in found] == [COLUMNS] * len(reasons)
    assert {(r["partition"], r["offset"]): (r["reason"], r["stream_time"], r["close"]) for r in found} == reasons
    survived("records that come too late, or without a key", "in the late table with reason and bound", len(found))


@pytest.mark.parametrize("is_late", [True, False])
def test_of_a_large_epoch_the_late_rows_are_counted_in_their_files(
    world: World, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    monkeypatch.setattr(limits, "KEPT_RECORDS", 0)
    node = joined()
    assert node.operation is not None
    world.publish(node.operation.inputs["left"], [(("k",), ("x",), 30, 0), (("k",), ("y",), 20 if is_late else 21, 0)])
    world.publish(node.operation.inputs["right"], [])
    assert (result := world.run(node)) is not None and result.sides == {"late": int(is_late)}
    late = Path(world.runner(node.pipeline.name).paths(node).late)
    # A file without rows is removed, and no table is made for it.
    assert len(list(late.rglob("*.parquet"))) == int(is_late)


def test_what_is_dropped_is_staged_with_the_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that has no Spark reads it from the files, and what a dead attempt has left of it is nobody's."""
    node, attempts = windowed(), list[Written]()
    assert node.operation is not None
    commit = Commit.run

    def dies_at_first(self: Commit, context: Any, written: Written, decision: Any) -> Any:
        attempts.append(written)
        if len(attempts) == 1:
            raise ConnectionError("killed")
        return commit(self, context, written, decision)

    monkeypatch.setattr(Commit, "run", dies_at_first)
    world.publish(node.operation.inputs["left"], [(("k",), ("x",), 25, 0), (("k",), ("late",), 3, 0)])
    with pytest.raises(ConnectionError):
        world.run(node)
    assert world.run(node) is not None
    paths = world.runner(node.pipeline.name).paths(node)
    folders = [attempt.staged_sides["late"].folder for attempt in attempts]
    assert folders[0] != folders[1] and all((Path(paths.late) / folder).is_dir() for folder in folders)
    for attempt in attempts:
        relation = late_of(paths, replace(attempt, sides={}))
        with database("1g", IN_PROCESS.spill) as connection:
            create_view(connection, "late", relation)
            assert connection.sql("SELECT reason FROM late").fetchall() == [
                ("closed at 10 ms when stream time was 25 ms",)
            ]
    table = open_table(paths.late)
    assert table is not None
    assert [file.split("/")[0] for file in pa.table(table.get_add_actions())["path"].to_pylist()] == folders[1:]
    assert [row["reason"] for row in world.rows(node, "late")] == ["closed at 10 ms when stream time was 25 ms"]


def test_the_rule_is_for_those_who_drop() -> None:
    wide = clicks.to_table("wide_clicks")
    assert all(RULE.applies_to(node) for node in (seen, wide, enriched("inner"), localised("inner"), released()))
    assert not any(RULE.applies_to(node) for node in (clicks, names, owned, enriched("left"), localised("left")))
    eager = replace(seen, origin=replace(seen.origin, semantics="0.10.2"))  # type: ignore[type-var]
    assert not RULE.applies_to(eager), "there nothing is ever late"


def judged(late: int, read: int | None) -> InvariantResult:
    rows = [{"side": "left", "offset": offset, "reason": "no key"} for offset in range(late)]
    given = Judged({"late": lambda: relation_of(seen, "late", rows)}, {"read": read})
    (result,) = IN_PROCESS.evaluate(seen, RULES, given)
    return result


@pytest.mark.parametrize(
    ("late", "read", "state", "shown"),
    [
        (0, 100, "passed", "No violations in 100 rows."),
        (5, 100, "passed", "5 violations in 100 rows (5.0%)."),
        (6, 100, "violated", "6 violations in 100 rows (6.0%)."),
        (30, 500, "violated", "30 violations in 500 rows (6.0%)."),
        (1, 1, "violated", "1 violation in 1 row (100.0%)."),
        (0, 0, "passed", "No violations in 0 rows."),
    ],
)
def test_the_share_decides_and_is_shown(late: int, read: int, state: str, shown: str) -> None:
    result = judged(late, read)
    assert (result.state, result.violations, result.checked) == (state, late, read)
    assert result.passed == (state == "passed")
    assert result.description == f"{RULE.sentence} {shown}"
    assert (RULE.severity, RULE.blocking) == ("warning", False)
    assert f"{MAX_LATE_SHARE:.0%}" in RULE.sentence


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_run_says_so_and_goes_on(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    lossy = Pipeline("lossy")
    files = Files("orders/*.csv", "csv", {NUMBER: "STRING", PRICE: "INT", "at": "BIGINT"})
    orders = lossy.stream("orders", files, key=[NUMBER], value=[PRICE], timestamp="at")
    orders.group_by_key().windowed_by(TimeWindows(10)).aggregate({"n": count()}, "counted")
    shop = replace(Shop.below(tmp_path, settings), pipeline=lossy)
    shop.deliver("orders", "1", (NUMBER, PRICE, "at"), ("o", 1, 25), ("o", 2, 3))
    assert shop.run(), shop.said
    message = "VIOLATED lossy/counted_changelog: " + RULE.sentence + " 1 violation in 2 rows (50.0%)."
    assert [line.strip() for line in shop.said if "VIOLATED" in line] == [message]
    quality = open_table(shop.project.quality.table)
    assert quality is not None
    lines = [line for line in quality.to_pyarrow_dataset().to_table().to_pylist() if line["invariant"] == RULE.id]
    assert [(line["node"], line["state"], line["severity"]) for line in lines] == [("counted", "violated", "warning")]
    (row,) = asked(shop.project, lines[0]["sql"])
    assert (row["key"][NUMBER], row["reason"]) == ("o", "closed at 10 ms when stream time was 25 ms")
